#include "worker_wake.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "sluice/error.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::ucx {
namespace {

timespec to_timespec(Duration duration) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration);
  return {static_cast<time_t>(seconds.count()), static_cast<long>((duration - seconds).count())};
}

}  // namespace

WorkerWake::WorkerWake(const Worker& worker)
    : worker_(worker.get()), notifications_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (notifications_ < 0) throw Error(std::string("no event descriptor: ") + std::strerror(errno));
  // The descriptor belongs to the worker.
  const ucs_status_t status = ucp_worker_get_efd(worker_, &worker_events_);
  if (status == UCS_OK) return;
  close(notifications_);
  check(status, "asking for the worker's event descriptor");
}

WorkerWake::~WorkerWake() { close(notifications_); }

void WorkerWake::notify() noexcept {
  if (state_.exchange(State::Notified, std::memory_order_acq_rel) != State::Sleeping) return;
  const std::uint64_t one = 1;
  // The counter cannot overflow: the sleeper empties it before it can sleep again.
  [[maybe_unused]] const ssize_t written = ::write(notifications_, &one, sizeof one);
}

void WorkerWake::wait_until(Time deadline) {
  if (std::exchange(happened_, false)) return;
  State expected = State::Awake;
  if (!state_.compare_exchange_strong(expected, State::Sleeping, std::memory_order_acq_rel)) {
    state_.exchange(State::Awake, std::memory_order_acq_rel);
    return;
  }
  sleep(deadline);
  state_.exchange(State::Awake, std::memory_order_acq_rel);
}

void WorkerWake::sleep(Time deadline) {
  const Duration left = deadline - host::SteadyClock().now();
  // A worker that cannot be armed has something to do, which may be the awaited message.
  if (left <= Duration{0} || ucp_worker_arm(worker_) != UCS_OK) return;
  pollfd events[] = {{notifications_, POLLIN, 0}, {worker_events_, POLLIN, 0}};
  const timespec timeout = to_timespec(left);
  if (turn_ != nullptr) turn_->unlock();
  ppoll(events, std::size(events), &timeout, nullptr);
  if (turn_ != nullptr) turn_->lock();
  ++sleeps_;
  if ((events[0].revents & POLLIN) == 0) return;
  // What a notifier writes only after the sleep has ended by itself ends the next sleep early instead.
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = read(notifications_, &count, sizeof count);
}

}  // namespace sluice::ucx
