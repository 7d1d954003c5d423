#include "sluice/cuda/emulated_code.hpp"

#include <algorithm>
#include <cuda/atomic>

#include "kernels/completion_mark.hpp"
#include "kernels/global_timer.hpp"
#include "kernels/publish_end.hpp"
#include "kernels/spin.hpp"
#include "sluice/cuda/cuda_error.hpp"

namespace sluice::cuda {
namespace kernels {

/// The block that is through last has seen what the others wrote.
__device__ inline bool last_block(PlaceCounts& counts) {
  const ::cuda::atomic_ref<std::uint32_t, ::cuda::thread_scope_system> through(counts.blocks);
  return through.fetch_add(1, ::cuda::memory_order_acq_rel) + 1 == gridDim.x;
}

__global__ void spin(std::uint64_t nanoseconds, CompletionMark* mark, PlaceCounts* counts) {
  std::uint64_t now = global_timer();
  if (blockIdx.x == 0 && threadIdx.x == 0) note_start(*mark, now);
  const std::uint64_t deadline = spin_deadline(now, nanoseconds);
  while (now < deadline) {
    __nanosleep(spin_pause_ns(now, deadline));
    now = global_timer();
  }
  __syncthreads();
  if (threadIdx.x == 0 && last_block(*counts)) publish_end(*mark, note_end(*mark, *counts, global_timer()));
}

}  // namespace kernels

void EmulatedCode::enqueue(const Launch& launch, std::uint32_t place, const CompletionBoard& board,
                           cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = options_.blocks;
  config.blockDim = options_.threads;
  config.stream = stream;
  const auto nanoseconds = static_cast<std::uint64_t>(std::max(task_time_(launch), Duration{0}).count());
  const CompletionBoard::DeviceSide side = board.device_side(place);
  check(cudaLaunchKernelEx(&config, kernels::spin, nanoseconds, side.mark, side.counts),
        "launching a kernel that spins");
}

}  // namespace sluice::cuda
