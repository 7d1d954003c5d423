#include "cuda/kernels/spin.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "cuda/kernels/completion_mark.hpp"
#include "fake_cuda.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using sluice::cuda::CompletionMark;
using sluice::cuda::PlaceCounts;

std::uint64_t global_timer() { return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count()); }

/// Sleeps, so that a test machine can emulate more devices than it has cores.
void spin(dim3 /*grid*/, dim3 /*block*/, std::uint64_t nanoseconds, CompletionMark* mark,
          PlaceCounts* counts) {
  const std::uint64_t now = global_timer();
  sluice::cuda::kernels::note_start(*mark, now);
  const std::uint64_t deadline = sluice::cuda::kernels::spin_deadline(now, nanoseconds);
  std::this_thread::sleep_until(Clock::time_point(std::chrono::nanoseconds(deadline)));
  const std::uint32_t ended = sluice::cuda::kernels::note_end(*mark, *counts, global_timer());
  std::atomic_ref(mark->ended).store(ended, std::memory_order_release);
}

[[maybe_unused]] const bool kRegistered = fakecuda::kernel("sluice::cuda::kernels::spin(", &spin);

}  // namespace
