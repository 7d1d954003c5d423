#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "sluice/cuda/ipc_transport.hpp"
#include "sluice/pipeline.hpp"

namespace sluice::cuda {

/// Chunks, edges and microbatches: what ranks that meet must have in common.
[[nodiscard]] std::array<std::uint32_t, 3> extent_of(const Pipeline& pipeline);

/// @param ranks how many there are
/// @throws ConfigError naming `stage` or `ranks`
void check_place(const Pipeline& pipeline, StageId stage, std::span<const std::uint32_t> rank_of_stage,
                 std::size_t ranks);

/// Throws the same on every rank if one of them had an error.
/// @param error empty for none
void agree_on_success(const std::string& error, const AllGather& all_gather);

}  // namespace sluice::cuda
