#include "method.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "sluice/error.hpp"

namespace sluice::tools {
namespace {

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_schedule(std::string_view name) {
  if (contains(Schedule::names(), name)) return true;
  if (contains(Hint::names(), name)) return false;
  throw ConfigError("methods", fmt::format("'{}' is not one of {}", name, fmt::join(Method::names(), ", ")));
}

Pipeline make_pipeline(const PipelineSettings& settings, bool split_backward) {
  return Pipeline::interleaved(settings.stages, settings.chunks_per_stage, settings.microbatches,
                               split_backward);
}

}  // namespace

Method::Method(std::string_view name, const PipelineSettings& settings)
    : Method(name, is_schedule(name), settings) {}

Method Method::hint(std::string_view name, const PipelineSettings& settings) {
  return {name, false, settings};
}

Method Method::schedule(std::string_view name, const PipelineSettings& settings) {
  return {name, true, settings};
}

std::vector<std::string> Method::names() {
  std::vector<std::string> names(Hint::names().begin(), Hint::names().end());
  names.insert(names.end(), Schedule::names().begin(), Schedule::names().end());
  return names;
}

Method::Method(std::string_view name, bool fixed, const PipelineSettings& settings)
    : name_(name), pipeline_(make_pipeline(settings, !fixed && name == "bfw")) {
  std::optional<Schedule> schedule;
  if (fixed) schedule = Schedule::named(name, pipeline_);
  for (StageId stage = 0; stage < pipeline_.stages(); ++stage) {
    policies_.push_back(schedule ? Policy::fixed(*schedule, pipeline_, stage, settings.rules)
                                 : Policy::readiness(Hint::named(name, pipeline_, stage)));
    // Refuses a limit that the stage cannot have.
    [[maybe_unused]] const std::uint32_t slots =
        policies_.back().slots(pipeline_, stage, settings.limit, settings.rules);
  }
  if (schedule && settings.limit_given) check_limit(*schedule, settings);
}

void Method::check_limit(const Schedule& schedule, const PipelineSettings& settings) const {
  for (StageId stage = 0; stage < pipeline_.stages(); ++stage) {
    const std::uint32_t peak = schedule.peak_in_flight(pipeline_, stage);
    const std::uint32_t allowed = Backpressure(pipeline_, stage, settings.limit, settings.rules).credits();
    if (peak <= allowed) continue;
    throw ConfigError(
        "limit",
        fmt::format(
            "schedule {} holds {} microbatches in flight on stage {}, more than the {} that {} allows", name_,
            peak, stage, allowed, settings.limit));
  }
}

}  // namespace sluice::tools
