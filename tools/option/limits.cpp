#include "option/limits.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <string_view>
#include <system_error>

#include "option/units.hpp"
#include "sluice/error.hpp"

namespace sluice::tools {
namespace {

constexpr std::uint32_t kMostSlots = std::uint32_t{1} << 30U;
constexpr double kMostLimitBytes = 0x1p62;
constexpr std::string_view kTotal = "total:";

struct ByteUnit {
  std::string_view name;
  double bytes;
};
constexpr std::array<ByteUnit, 10> kByteUnits{{{"", 1},
                                               {"B", 1},
                                               {"kB", 1e3},
                                               {"MB", 1e6},
                                               {"GB", 1e9},
                                               {"TB", 1e12},
                                               {"KiB", 0x1p10},
                                               {"MiB", 0x1p20},
                                               {"GiB", 0x1p30},
                                               {"TiB", 0x1p40}}};

std::vector<std::string_view> items_of(std::string_view text) {
  std::vector<std::string_view> items;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    items.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

std::uint64_t parse_slots(std::string_view text, std::uint64_t most) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || rest != end || number == 0 || number > most) {
    throw ConfigError("limit", fmt::format("{} is not a whole number from 1 to {}", in_quotes(text), most));
  }
  return number;
}

/// One value for all stages, or one a stage.
void require_entries(const char* field, std::size_t entries, std::size_t stages) {
  if (entries == 1 || entries == stages) return;
  throw ConfigError(field, fmt::format("has {} entries for {} stages", entries, stages));
}

std::vector<std::uint32_t> limits_of_memory(std::uint64_t memory, std::span<const std::uint64_t> bytes,
                                            std::span<const std::uint32_t> chunks,
                                            std::uint32_t microbatches) {
  std::vector<std::uint32_t> limits;
  for (std::size_t stage = 0; stage < chunks.size(); ++stage) {
    // A slot holds a microbatch of one of the stage's chunks.
    const long double slots = static_cast<long double>(memory) * chunks[stage] / bytes[stage];
    const long double all = static_cast<long double>(std::max(microbatches, 2U)) * chunks[stage];
    const auto most =
        static_cast<std::uint32_t>(std::min({slots, all, static_cast<long double>(kMostSlots)}));
    limits.push_back(limit_of_slots(most, chunks[stage]));
    if (limits.back() >= chunks[stage]) continue;
    // A stage has room for two microbatches of each of several chunks, or for one of its only chunk.
    const std::string needs =
        chunks[stage] == 1 ? "1 microbatch" : fmt::format("2 microbatches of its {} chunks", chunks[stage]);
    throw ConfigError("memory-limit",
                      fmt::format("{} is too little for stage {}, which needs {} of {}", bytes_text(memory),
                                  stage, needs, bytes_text(bytes[stage])));
  }
  return limits;
}

}  // namespace

std::uint64_t parse_bytes(const std::string& field, std::string_view text) {
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit = text.substr(static_cast<std::size_t>(rest - text.data()));
  const auto* const known = std::find_if(kByteUnits.begin(), kByteUnits.end(),
                                         [unit](const ByteUnit& each) { return each.name == unit; });
  if (error == std::errc::invalid_argument || known == kByteUnits.end())
    throw ConfigError(field, fmt::format("{} is not a size such as 24GiB", in_quotes(text)));
  const double bytes = value * known->bytes;
  if (error != std::errc{} || !(bytes >= 1 && bytes <= kMostLimitBytes))
    throw ConfigError(field, fmt::format("{} does not lie in 1 B to 4 EiB", in_quotes(text)));
  return static_cast<std::uint64_t>(bytes);
}

std::string bytes_text(std::uint64_t size) {
  constexpr std::array<std::string_view, 5> names{"B", "KiB", "MiB", "GiB", "TiB"};
  auto bytes = static_cast<double>(size);
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < names.size(); ++unit) bytes /= 1024;
  return fmt::format("{:.4g} {}", bytes, names[unit]);
}

std::vector<std::uint32_t> chunks_by_stage(const Pipeline& pipeline) {
  std::vector<std::uint32_t> chunks;
  for (StageId stage = 0; stage < pipeline.stages(); ++stage)
    chunks.push_back(static_cast<std::uint32_t>(pipeline.chunks_of(stage).size()));
  return chunks;
}

std::vector<std::uint32_t> spread_slots(std::uint64_t total, std::span<const std::uint32_t> chunks) {
  // A limit of C on C chunks takes 2 C slots.
  const auto least = [&](std::size_t stage) -> std::int64_t {
    return chunks[stage] == 1 ? 1 : 2 * std::int64_t{chunks[stage]};
  };
  std::int64_t sum = 0;
  for (std::size_t stage = 0; stage < chunks.size(); ++stage) sum += least(stage);
  if (static_cast<std::int64_t>(total) < sum) {
    throw ConfigError(
        "limit", fmt::format("a total of {} is too small, {} stages need {}", total, chunks.size(), sum));
  }
  const auto stages = static_cast<std::int64_t>(chunks.size());
  // The highest first stage whose descent fits into the total; the rest goes to the first stages.
  const auto slots_below = [&](std::int64_t first) {
    std::vector<std::int64_t> slots;
    for (std::int64_t stage = 0; stage < stages; ++stage)
      slots.push_back(std::max(first - stage, least(static_cast<std::size_t>(stage))));
    return slots;
  };
  std::int64_t low = 0;
  std::int64_t high = static_cast<std::int64_t>(total);
  while (low < high) {
    const std::int64_t middle = (low + high + 1) / 2;
    const auto slots = slots_below(middle);
    if (std::accumulate(slots.begin(), slots.end(), std::int64_t{0}) <= static_cast<std::int64_t>(total)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  std::vector<std::int64_t> slots = slots_below(low);
  std::int64_t left =
      static_cast<std::int64_t>(total) - std::accumulate(slots.begin(), slots.end(), std::int64_t{0});
  for (std::size_t stage = 0; left > 0; ++stage, --left) ++slots[stage % slots.size()];
  return {slots.begin(), slots.end()};
}

std::vector<std::uint32_t> parse_limits(const std::string& text, std::span<const std::uint32_t> chunks) {
  if (text.starts_with(kTotal)) {
    std::vector<std::uint32_t> limits =
        spread_slots(parse_slots(std::string_view(text).substr(kTotal.size()), kMostSlots), chunks);
    for (std::size_t stage = 0; stage < limits.size(); ++stage)
      limits[stage] = limit_of_slots(limits[stage], chunks[stage]);
    return limits;
  }
  std::vector<std::uint32_t> limits;
  for (const std::string_view item : items_of(text))
    limits.push_back(static_cast<std::uint32_t>(parse_slots(item, kMostSlots)));
  require_entries("limit", limits.size(), chunks.size());
  if (limits.size() == 1) limits.resize(chunks.size(), limits.front());
  return limits;
}

std::vector<std::uint64_t> peak_memory(std::span<const std::uint32_t> in_flight,
                                       std::span<const std::uint64_t> bytes,
                                       std::span<const std::uint32_t> chunks) {
  std::vector<std::uint64_t> memory;
  for (std::size_t stage = 0; stage < in_flight.size(); ++stage)
    memory.push_back(in_flight[stage] * bytes[stage] / chunks[stage]);
  return memory;
}

std::string peak_text(std::span<const std::uint32_t> in_flight, std::span<const std::uint64_t> memory) {
  const std::uint64_t total = std::accumulate(in_flight.begin(), in_flight.end(), std::uint64_t{0});
  std::string text = fmt::format("in flight by stage {} (total {})", fmt::join(in_flight, ","), total);
  if (!memory.empty())
    text +=
        fmt::format(", at most {} on a stage", bytes_text(*std::max_element(memory.begin(), memory.end())));
  return text;
}

void LimitOptions::declare(CLI::App& command) {
  constexpr const char* group = "Pipeline";
  command
      .add_option("--limit", limit,
                  "Most microbatches in flight on a stage: 16, by stage 8,7,6,5, or total:64 over all stages")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--memory-limit", memory_limit,
                  "Memory for activations on each stage, in place of --limit: 24GiB")
      ->group(group);
  command
      .add_option("--activation-bytes", activation_bytes,
                  "What one microbatch takes on a stage, or by stage: 900MiB,800MiB,...")
      ->group(group);
}

bool LimitOptions::given(const CLI::App& command) {
  return command.count("--limit") > 0 || command.count("--memory-limit") > 0;
}

std::vector<std::uint64_t> LimitOptions::bytes(std::size_t stages) const {
  if (activation_bytes.empty()) return {};
  std::vector<std::uint64_t> bytes;
  for (const std::string_view item : items_of(activation_bytes))
    bytes.push_back(parse_bytes("activation-bytes", item));
  require_entries("activation-bytes", bytes.size(), stages);
  if (bytes.size() == 1) bytes.resize(stages, bytes.front());
  return bytes;
}

std::vector<std::uint32_t> LimitOptions::limits(const CLI::App& command,
                                                std::span<const std::uint32_t> chunks,
                                                std::uint32_t microbatches) const {
  const std::vector<std::uint64_t> each = bytes(chunks.size());
  if (memory_limit.empty()) return parse_limits(limit, chunks);
  if (command.count("--limit") > 0) throw ConfigError("memory-limit", "give it or --limit, not both");
  if (each.empty())
    throw ConfigError("activation-bytes",
                      "is needed with --memory-limit: what one microbatch takes on a stage");
  return limits_of_memory(parse_bytes("memory-limit", memory_limit), each, chunks, microbatches);
}

}  // namespace sluice::tools
