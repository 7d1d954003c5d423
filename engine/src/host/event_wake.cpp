#include "sluice/host/event_wake.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

#include "sluice/error.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::host {
namespace {

timespec to_timespec(Duration duration) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration);
  return {static_cast<time_t>(seconds.count()), static_cast<long>((duration - seconds).count())};
}

void pause_briefly() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace

EventWake::EventWake() : descriptor_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (descriptor_ < 0) throw Error(std::string("no event descriptor: ") + std::strerror(errno));
}

EventWake::~EventWake() { close(descriptor_); }

void EventWake::notify() noexcept {
  if (state_.exchange(State::Notified, std::memory_order_acq_rel) != State::Sleeping) return;
  const std::uint64_t one = 1;
  // The counter cannot overflow: the sleeper empties it before it can sleep again.
  [[maybe_unused]] const ssize_t written = write(descriptor_, &one, sizeof one);
}

void EventWake::wait_until(Time deadline) {
  State expected = State::Awake;
  if (!state_.compare_exchange_strong(expected, State::Sleeping, std::memory_order_acq_rel)) {
    state_.exchange(State::Awake, std::memory_order_acq_rel);
    return;
  }
  const Duration left = deadline - SteadyClock().now();
  if (left > Duration{0}) {
    pollfd event{descriptor_, POLLIN, 0};
    const timespec timeout = to_timespec(left);
    ppoll(&event, 1, &timeout, nullptr);
    ++sleeps_;
  }
  state_.exchange(State::Awake, std::memory_order_acq_rel);
  // Also what a notifier wrote late, after an earlier sleep had ended by itself.
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = read(descriptor_, &count, sizeof count);
}

void Idler::wait(Time deadline) {
  ++turns_;
  if (turns_ <= kSpins) {
    pause_briefly();
  } else if (turns_ <= kSpins + kYields) {
    std::this_thread::yield();
  } else {
    wake_.wait_until(deadline);
  }
}

}  // namespace sluice::host
