#include "sluice/cuda/emulated_code.hpp"

#include <algorithm>

#include "kernels/global_timer.hpp"
#include "kernels/spin.hpp"
#include "sluice/cuda/cuda_error.hpp"

namespace sluice::cuda {
namespace kernels {

__global__ void spin(std::uint64_t nanoseconds) {
  std::uint64_t now = global_timer();
  const std::uint64_t deadline = spin_deadline(now, nanoseconds);
  while (now < deadline) {
    __nanosleep(spin_pause_ns(now, deadline));
    now = global_timer();
  }
}

}  // namespace kernels

void enqueue_spin(Duration time, std::uint32_t blocks, std::uint32_t threads, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.stream = stream;
  const auto nanoseconds = static_cast<std::uint64_t>(std::max(time, Duration{0}).count());
  check(cudaLaunchKernelEx(&config, kernels::spin, nanoseconds), "launching a kernel that spins");
}

}  // namespace sluice::cuda
