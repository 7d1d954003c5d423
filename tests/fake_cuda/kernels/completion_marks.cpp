#include <atomic>
#include <chrono>
#include <cstdint>

#include "cuda/kernels/completion_mark.hpp"
#include "fake_cuda.hpp"

namespace {

using sluice::cuda::CompletionMark;
using sluice::cuda::PlaceCounts;

std::uint64_t global_timer() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

void stamp_start(dim3 /*grid*/, dim3 /*block*/, CompletionMark* mark) {
  sluice::cuda::kernels::note_start(*mark, global_timer());
}

void stamp_end(dim3 /*grid*/, dim3 /*block*/, CompletionMark* mark, PlaceCounts* counts) {
  const std::uint32_t ended = sluice::cuda::kernels::note_end(*mark, *counts, global_timer());
  std::atomic_ref(mark->ended).store(ended, std::memory_order_release);
}

[[maybe_unused]] const bool kRegistered =
    fakecuda::kernel("sluice::cuda::kernels::stamp_start(", &stamp_start) &&
    fakecuda::kernel("sluice::cuda::kernels::stamp_end(", &stamp_end);

}  // namespace
