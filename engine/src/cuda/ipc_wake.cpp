#include "ipc_wake.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

#include "sluice/host/steady_clock.hpp"

namespace sluice::cuda {

void IpcWake::notify() noexcept {
  if (word_.exchange(Notified, std::memory_order_acq_rel) != Sleeping) return;
  syscall(SYS_futex, &word_, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void IpcWake::wait_until(Time deadline) {
  std::uint32_t expected = Awake;
  if (word_.compare_exchange_strong(expected, Sleeping, std::memory_order_acq_rel) &&
      deadline > host::SteadyClock().now()) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(deadline);
    const timespec until{static_cast<time_t>(seconds.count()),
                         static_cast<long>((deadline - seconds).count())};
    // With a bit set the time is absolute, of the monotonic clock.
    syscall(SYS_futex, &word_, FUTEX_WAIT_BITSET, Sleeping, &until, nullptr, FUTEX_BITSET_MATCH_ANY);
  }
  word_.exchange(Awake, std::memory_order_acq_rel);
}

}  // namespace sluice::cuda
