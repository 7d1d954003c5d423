#pragma once

#include <chrono>

namespace sluice {

/// A point in time: nanoseconds since the clock's epoch.
using Time = std::chrono::nanoseconds;
using Duration = std::chrono::nanoseconds;

inline constexpr Time kNever = Time::max();
/// As a deadline: something may be found at any moment and nobody will notify, so it must be looked for.
inline constexpr Time kAnyTime = Time::min();

/// The only source of time of a dispatcher and of the seams below it.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual Time now() const = 0;
};

/// The one place where a rank sleeps.
class Wake {
 public:
  virtual ~Wake() = default;

  /// Ends the current or the next `wait_until`. Safe from any thread, never blocks.
  virtual void notify() noexcept = 0;

  /// Returns after a `notify` or at `deadline`, whichever comes first; may return early.
  virtual void wait_until(Time deadline) = 0;
};

}  // namespace sluice
