#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "sluice/cuda/completion_board.hpp"

namespace sluice::cuda::kernels {

__host__ __device__ inline void note_start(CompletionMark& mark, std::uint64_t now) { mark.started_ns = now; }

/// @return what is to be published as `mark.ended` after all that was written before
__host__ __device__ inline std::uint32_t note_end(CompletionMark& mark, PlaceCounts& counts,
                                                  std::uint64_t now) {
  mark.ended_ns = now;
  counts.blocks = 0;
  return ++counts.ended;
}

}  // namespace sluice::cuda::kernels
