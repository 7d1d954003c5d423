#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sluice::cuda::kernels {

/// When what starts now and takes so long ends; never sooner, however long that is.
__host__ __device__ inline std::uint64_t spin_deadline(std::uint64_t now, std::uint64_t nanoseconds) {
  const std::uint64_t deadline = now + nanoseconds;
  return deadline < now ? ~std::uint64_t{0} : deadline;
}

/// How long to pause before the timer is looked at again: long while the deadline is far, so that waiting
/// takes nothing from others, and not beyond it.
__host__ __device__ inline std::uint32_t spin_pause_ns(std::uint64_t now, std::uint64_t deadline) {
  constexpr std::uint64_t kLongest = 10'000;
  constexpr std::uint64_t kWakesLate = 2'000;
  if (now + kWakesLate >= deadline) return 0;
  const std::uint64_t left = (deadline - now - kWakesLate) / 2;
  return static_cast<std::uint32_t>(left < kLongest ? left : kLongest);
}

}  // namespace sluice::cuda::kernels
