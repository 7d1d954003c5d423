#include <chrono>
#include <cstdint>
#include <thread>

#include "cuda/kernels/spin.hpp"
#include "fake_cuda.hpp"

namespace {

/// Sleeps, so that a test machine can emulate more devices than it has cores.
void spin(dim3 /*grid*/, dim3 /*block*/, std::uint64_t nanoseconds) {
  using Clock = std::chrono::steady_clock;
  const auto now = static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
  const std::uint64_t deadline = sluice::cuda::kernels::spin_deadline(now, nanoseconds);
  std::this_thread::sleep_until(Clock::time_point(std::chrono::nanoseconds(deadline)));
}

[[maybe_unused]] const bool kRegistered = fakecuda::kernel("sluice::cuda::kernels::spin(", &spin);

}  // namespace
