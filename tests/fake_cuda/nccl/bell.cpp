#include "bell.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace fakenccl {

void Bell::ring() {
  ++count_;
  syscall(SYS_futex, &count_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Bell::wait(std::uint32_t count, std::chrono::microseconds most) const {
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(most).count();
  const timespec longest{static_cast<time_t>(nanoseconds / 1000000000), nanoseconds % 1000000000};
  syscall(SYS_futex, &count_, FUTEX_WAIT, count, &longest, nullptr, 0);
}

}  // namespace fakenccl
