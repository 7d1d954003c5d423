#include "sluice/cuda/completion_board.hpp"

#include <cuda/atomic>

#include "kernels/completion_mark.hpp"
#include "kernels/global_timer.hpp"
#include "sluice/cuda/cuda_error.hpp"

namespace sluice::cuda {
namespace kernels {

__global__ void stamp_start(CompletionMark* mark) { note_start(*mark, global_timer()); }

__global__ void stamp_end(CompletionMark* mark, std::uint32_t* count) {
  const std::uint32_t ended = note_end(*mark, *count, global_timer());
  ::cuda::atomic_ref<std::uint32_t, ::cuda::thread_scope_system>(mark->ended)
      .store(ended, ::cuda::memory_order_release);
}

}  // namespace kernels

namespace {

cudaLaunchConfig_t one_thread(cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = 1;
  config.blockDim = 1;
  config.stream = stream;
  return config;
}

}  // namespace

void CompletionBoard::enqueue_start(std::uint32_t place, cudaStream_t stream) const {
  const cudaLaunchConfig_t config = one_thread(stream);
  check(cudaLaunchKernelEx(&config, kernels::stamp_start, device_mark(place)), "marking the start of a task");
}

void CompletionBoard::enqueue_end(std::uint32_t place, cudaStream_t stream) const {
  const cudaLaunchConfig_t config = one_thread(stream);
  check(cudaLaunchKernelEx(&config, kernels::stamp_end, device_mark(place), device_count(place)),
        "marking the end of a task");
}

}  // namespace sluice::cuda
