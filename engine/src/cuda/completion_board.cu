#include "sluice/cuda/completion_board.hpp"

#include "kernels/completion_mark.hpp"
#include "kernels/global_timer.hpp"
#include "kernels/publish_end.hpp"
#include "sluice/cuda/cuda_error.hpp"

namespace sluice::cuda {
namespace kernels {

__global__ void stamp_start(CompletionMark* mark) { note_start(*mark, global_timer()); }

__global__ void stamp_end(CompletionMark* mark, PlaceCounts* counts) {
  publish_end(*mark, note_end(*mark, *counts, global_timer()));
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
  check(cudaLaunchKernelEx(&config, kernels::stamp_start, device_side(place).mark),
        "marking the start of a task");
}

void CompletionBoard::enqueue_end(std::uint32_t place, cudaStream_t stream) const {
  const cudaLaunchConfig_t config = one_thread(stream);
  const DeviceSide side = device_side(place);
  check(cudaLaunchKernelEx(&config, kernels::stamp_end, side.mark, side.counts), "marking the end of a task");
}

}  // namespace sluice::cuda
