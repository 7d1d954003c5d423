#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "sluice/clock.hpp"
#include "sluice/executor.hpp"

namespace sluice::host {

/// How long a launched task takes.
using TaskTime = std::function<Duration(const Launch&)>;

/// A device whose tasks end at deadlines and burn nothing while they run.
///
/// Each lane is serial. A task starts when it is launched, or, launched ahead, when the one before it
/// on its lane ends.
class EmulatedExecutor final : public Executor {
 public:
  /// A task is launched ahead at any time.
  static constexpr Duration kAnyLead = Duration::max();

  /// @param depth launched tasks a lane holds at once, the running one included
  /// @param lead how long before the end of the one before it a task may be launched ahead
  /// @throws ConfigError naming `launch-ahead` if depth is 0
  EmulatedExecutor(const Clock& clock, TaskTime task_time, std::uint32_t depth = 1, Duration lead = kAnyLead);

  [[nodiscard]] std::uint32_t room(Lane lane) const override;
  void launch(const Launch& launch) override;
  bool poll(Done& done) override;
  /// When the first running task ends, or the next one may be launched ahead.
  [[nodiscard]] Time next_deadline() const override;
  /// When the task launched last on the lane ends. Precondition: the lane is not empty.
  [[nodiscard]] Time end_of_last(Lane lane) const { return queue(lane).back().ended; }

 private:
  struct Queue {
    std::vector<Done> ring;
    std::uint32_t head = 0;
    std::uint32_t size = 0;

    [[nodiscard]] const Done& front() const { return ring[head]; }
    [[nodiscard]] const Done& back() const { return ring[(head + size - 1) % ring.size()]; }
  };

  [[nodiscard]] Queue& queue(Lane lane) { return lanes_[static_cast<std::size_t>(lane)]; }
  [[nodiscard]] const Queue& queue(Lane lane) const { return lanes_[static_cast<std::size_t>(lane)]; }

  const Clock& clock_;
  TaskTime task_time_;
  std::uint32_t depth_;
  Duration lead_;
  std::array<Queue, kLanes> lanes_;
};

}  // namespace sluice::host
