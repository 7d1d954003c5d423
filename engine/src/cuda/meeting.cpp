#include "meeting.hpp"

#include <fmt/format.h>

#include "sluice/error.hpp"

namespace sluice::cuda {

std::array<std::uint32_t, 3> extent_of(const Pipeline& pipeline) {
  return {pipeline.chunks(), static_cast<std::uint32_t>(pipeline.edges().size()), pipeline.microbatches()};
}

void check_place(const Pipeline& pipeline, StageId stage, std::span<const std::uint32_t> rank_of_stage,
                 std::size_t ranks) {
  const std::uint32_t stages = pipeline.stages();
  if (stage >= stages) throw ConfigError("stage", fmt::format("{} does not exist", stage));
  if (rank_of_stage.size() != stages)
    throw ConfigError("ranks", fmt::format("{} given for {} stages", rank_of_stage.size(), stages));
  for (const std::uint32_t rank : rank_of_stage) {
    if (rank >= ranks) throw ConfigError("ranks", fmt::format("rank {} is not one of {}", rank, ranks));
  }
}

void agree_on_success(const std::string& error, const AllGather& all_gather) {
  const auto errors = all_gather(std::as_bytes(std::span(error)));
  for (const auto& each : errors) {
    if (!each.empty()) throw Error({reinterpret_cast<const char*>(each.data()), each.size()});
  }
}

}  // namespace sluice::cuda
