#include "arguments.hpp"

#include <fmt/format.h>

#include <cmath>

#include "option/limits.hpp"
#include "option/options.hpp"
#include "option/units.hpp"
#include "sluice/error.hpp"
#include "sluice/sim/scenario.hpp"

namespace sluice::python {

std::uint32_t whole(const std::string& field, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most)
    throw ConfigError(field, fmt::format("must be {} to {}, not {}", least, most, value));
  return static_cast<std::uint32_t>(value);
}

double nanoseconds(const std::string& field, const TimeArgument& time) {
  if (const auto* text = std::get_if<std::string>(&time)) return tools::parse_nanoseconds(field, *text);
  const double seconds = std::get<double>(time);
  if (!(seconds >= 0 && seconds <= std::chrono::duration<double>(tools::kLongestTime).count()))
    throw ConfigError(field, fmt::format("{} s does not lie in 0 to 10 minutes", seconds));
  return 1e9 * seconds;
}

Duration duration(const std::string& field, const TimeArgument& time) {
  return Duration(std::llround(nanoseconds(field, time)));
}

std::vector<std::uint32_t> limits(const LimitArgument& limit, const Pipeline& pipeline) {
  const std::vector<std::uint32_t> chunks = tools::chunks_by_stage(pipeline);
  if (const auto* text = std::get_if<std::string>(&limit)) return tools::parse_limits(*text, chunks);
  if (const auto* one = std::get_if<std::int64_t>(&limit))
    return std::vector<std::uint32_t>(chunks.size(), whole("limit", *one));
  const auto& each = std::get<std::vector<std::int64_t>>(limit);
  if (each.size() != chunks.size())
    throw ConfigError("limit", fmt::format("has {} entries for {} stages", each.size(), chunks.size()));
  std::vector<std::uint32_t> limits;
  limits.reserve(each.size());
  for (const std::int64_t value : each) limits.push_back(whole("limit", value));
  return limits;
}

Rules rules(const std::string& rules, const std::optional<std::string>& accumulate) {
  return tools::parse_rules(rules, accumulate.value_or("order"), accumulate.has_value());
}

void check_size(const Pipeline& pipeline) {
  const std::uint64_t tasks = std::uint64_t{3} * pipeline.chunks() * pipeline.microbatches();
  if (tasks <= sim::Scenario::kMostTasks) return;
  throw ConfigError("microbatches",
                    fmt::format("{} chunks and {} microbatches are more than {} tasks", pipeline.chunks(),
                                pipeline.microbatches(), sim::Scenario::kMostTasks));
}

}  // namespace sluice::python
