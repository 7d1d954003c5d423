#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "sluice/cuda/completion_board.hpp"

namespace sluice::cuda::kernels {

__host__ __device__ inline void note_start(CompletionMark& mark, std::uint64_t now) { mark.started_ns = now; }

/// @param count of the place's ends, in device memory, where counting costs no way to the host and back
/// @return what is to be published as `mark.ended` after all that was written before
__host__ __device__ inline std::uint32_t note_end(CompletionMark& mark, std::uint32_t& count,
                                                  std::uint64_t now) {
  mark.ended_ns = now;
  return ++count;
}

}  // namespace sluice::cuda::kernels
