#pragma once

#include <cstdint>
#include <cuda/atomic>

#include "sluice/cuda/completion_board.hpp"

namespace sluice::cuda::kernels {

/// The host sees the end, and all that was written before it.
/// @param ended as `note_end` gave it
__device__ inline void publish_end(CompletionMark& mark, std::uint32_t ended) {
  ::cuda::atomic_ref<std::uint32_t, ::cuda::thread_scope_system>(mark.ended)
      .store(ended, ::cuda::memory_order_release);
}

}  // namespace sluice::cuda::kernels
