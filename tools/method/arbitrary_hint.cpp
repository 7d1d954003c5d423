#include "method/arbitrary_hint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sluice/error.hpp"
#include "sluice/host/draws.hpp"

namespace sluice::tools {
namespace {

constexpr std::string_view kReversed = "reversed";
constexpr std::string_view kRandom = "random:";
/// Keeps these draws apart from those of other models under the same seed.
constexpr std::uint64_t kStream = 0x68696e742d726e64;

std::uint64_t seed_of(std::string_view name) {
  const std::string_view text = name.substr(kRandom.size());
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc{} || end != text.data() + text.size())
    throw ConfigError("hint", fmt::format("'{}' is not random:SEED with a whole number", name));
  return seed;
}

/// The stage's tasks, one microbatch after the other from the first task to the last.
std::vector<Task> one_by_one(const Pipeline& pipeline, StageId stage) {
  const auto chunks = pipeline.chunks_of(stage);
  std::vector<Task> tasks;
  for (Microbatch m = 0; m < pipeline.microbatches(); ++m) {
    for (const Chunk chunk : chunks) tasks.push_back({m, chunk, Pass::Forward});
    for (std::size_t i = chunks.size(); i-- > 0;) {
      tasks.push_back({m, chunks[i], Pass::Backward});
      tasks.push_back({m, chunks[i], Pass::WeightGrad});
    }
  }
  return tasks;
}

}  // namespace

bool is_arbitrary_hint(std::string_view name) noexcept {
  return name == kReversed || name.starts_with(kRandom);
}

Hint arbitrary_hint(std::string_view name, const Pipeline& pipeline, StageId stage) {
  if (!is_arbitrary_hint(name)) throw ConfigError("hint", fmt::format("'{}' is not one of these", name));
  std::vector<Task> tasks = one_by_one(pipeline, stage);
  if (name == kReversed) {
    std::reverse(tasks.begin(), tasks.end());
  } else {
    const std::uint64_t seed = seed_of(name);
    std::vector<std::pair<std::uint64_t, Task>> drawn;
    for (const Task& task : tasks) {
      const auto pass = static_cast<std::uint64_t>(task.pass);
      drawn.emplace_back(host::draws::bits({kStream, seed, stage, task.chunk, pass, task.microbatch}), task);
    }
    std::sort(drawn.begin(), drawn.end());
    std::transform(drawn.begin(), drawn.end(), tasks.begin(), [](const auto& each) { return each.second; });
  }
  return {std::string(name), pipeline, stage, RoundRule::Priority, {std::move(tasks), {}, {}}};
}

}  // namespace sluice::tools
