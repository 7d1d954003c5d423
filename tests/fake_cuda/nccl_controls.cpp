#include "nccl_controls.hpp"

#include <atomic>

#include "controls.hpp"
#include "nccl_hooks.hpp"
#include "settings.hpp"
#include "thread_sanitizer.hpp"

namespace fakecuda::nccl_hooks {
namespace {

constexpr long kDeadlockMs = 10000;

std::atomic<int>& reported_version() {
  static std::atomic<int> value{static_cast<int>(setting("FAKENCCL_VERSION", 0))};
  return value;
}

std::atomic<long>& bound_ms() {
  static std::atomic<long> value{setting("FAKENCCL_DEADLOCK_MS", kDeadlockMs)};
  return value;
}

std::atomic<int> signals_until_lost{0};
std::atomic<Break> breaker{nullptr};

}  // namespace

int version() { return reported_version().load(); }

bool loses_signal() {
  int left = signals_until_lost.load();
  while (left > 0 && !signals_until_lost.compare_exchange_weak(left, left - 1)) {
  }
  return left == 1;
}

std::chrono::milliseconds deadlock_bound() { return std::chrono::milliseconds(bound_ms().load()); }

void on_break(Break function) { breaker.store(function); }

}  // namespace fakecuda::nccl_hooks

using fakecuda::Hidden;
namespace hooks = fakecuda::nccl_hooks;

void fakecuda_nccl_fail(const char* function, int nth, int code) {
  fakecuda_fail(function, nth, static_cast<cudaError_t>(code));
}

void fakecuda_nccl_version(int version) {
  const Hidden hidden;
  hooks::reported_version().store(version);
}

void fakecuda_nccl_break(void* communicator, int code) {
  const Hidden hidden;
  if (const hooks::Break breaker = hooks::breaker.load()) breaker(communicator, code);
}

void fakecuda_nccl_lose_signal(int nth) {
  const Hidden hidden;
  hooks::signals_until_lost.store(nth);
}

void fakecuda_nccl_deadlock_ms(int bound) {
  const Hidden hidden;
  hooks::bound_ms().store(bound);
}
