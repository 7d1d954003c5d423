#pragma once

#include <cstdint>
#include <string>

#include "sluice/pipeline.hpp"

namespace sluice::process {

/// Where a rank stands among the pipeline stages, the data-parallel replicas and the ranks of a
/// tensor-parallel group.
struct RankPlace {
  StageId stage = 0;
  std::uint32_t replica = 0;
  std::uint32_t member = 0;

  friend constexpr bool operator==(const RankPlace&, const RankPlace&) = default;
};

/// All ranks of a run, one process each. Ranks of one tensor-parallel group are neighbours, then come the
/// replicas of a stage, then the stages: `rank = (stage * replicas + replica) * group + member`.
struct RankGrid {
  std::uint32_t stages = 1;
  std::uint32_t replicas = 1;
  /// Ranks of a tensor-parallel group.
  std::uint32_t group = 1;

  [[nodiscard]] constexpr std::uint32_t ranks() const noexcept { return stages * replicas * group; }
  [[nodiscard]] constexpr std::uint32_t rank_of(const RankPlace& place) const noexcept {
    return (place.stage * replicas + place.replica) * group + place.member;
  }
  [[nodiscard]] constexpr RankPlace place_of(std::uint32_t rank) const noexcept {
    return {static_cast<StageId>(rank / (replicas * group)), rank / group % replicas, rank % group};
  }
};

/// `rank 3 (stage 1, replica 0, member 1)`, without what there is only one of.
[[nodiscard]] std::string to_string(const RankGrid& grid, std::uint32_t rank);

}  // namespace sluice::process
