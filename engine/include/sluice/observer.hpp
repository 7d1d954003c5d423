#pragma once

#include "sluice/decision.hpp"
#include "sluice/executor.hpp"
#include "sluice/iteration.hpp"
#include "sluice/transport.hpp"
#include "sluice/waiting.hpp"

namespace sluice {

/// Is told what a rank does while it does it, on the rank's own thread: for profilers and the like.
///
/// Called from inside the dispatcher's progress, so nothing here may block, throw, or allocate once warm.
class Observer {
 public:
  virtual ~Observer() = default;

  virtual void began(const Iteration& iteration) noexcept = 0;
  virtual void ended(const Iteration& iteration) noexcept = 0;

  /// A task was decided on, and is handed to the device next.
  virtual void launching(const Decision& decision) noexcept = 0;
  /// The rank noticed that a task has ended well.
  virtual void finished(const Done& done) noexcept = 0;
  virtual void arrived(const Arrival& arrival) noexcept = 0;
  /// Nothing can be launched or taken in until something happens. Told again after anything has happened.
  virtual void waits(WaitFor what) noexcept = 0;

  /// The iteration was given up: no more is told of it.
  virtual void stopped() noexcept = 0;
};

}  // namespace sluice
