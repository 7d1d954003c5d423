#pragma once

#include <cstdint>

namespace sluice::cuda::kernels {

/// The device's timer, in nanoseconds, the same on all of its multiprocessors. Its steps may be as long as a
/// microsecond.
__device__ inline std::uint64_t global_timer() {
  std::uint64_t now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

}  // namespace sluice::cuda::kernels
