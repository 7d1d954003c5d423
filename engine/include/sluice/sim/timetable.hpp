#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "sluice/clock.hpp"
#include "sluice/ready_set.hpp"

namespace sluice::sim {

/// Time that passes only when told to.
class VirtualClock final : public Clock {
 public:
  [[nodiscard]] Time now() const override { return now_; }
  void advance_to(Time time) noexcept { now_ = time; }

 private:
  Time now_{0};
};

/// Says which rank must be looked at, and when. Ranks due at the same time come in the order of their
/// numbers, so a simulation is deterministic. What is added for the time of the last `pop`, most of it,
/// costs the same for any number of ranks.
class Timetable {
 public:
  void add(Time time, std::uint32_t rank) {
    if (time == now_) {
      add_due(rank);
    } else {
      later_.push({time, rank});
    }
  }
  [[nodiscard]] bool empty() const noexcept { return due_.empty() && later_.empty(); }
  [[nodiscard]] Time next_time() const {
    if (due_.empty()) return later_.top().first;
    return later_.empty() ? now_ : std::min(now_, later_.top().first);
  }

  /// Removes and returns the first rank, with all its entries of the same time.
  std::uint32_t pop() {
    advance_to(next_time());
    const std::uint32_t rank = due_.first();
    due_.erase(rank);
    return rank;
  }
  void clear() {
    due_.clear();
    later_ = {};
    now_ = kNever;
  }

 private:
  using Entry = std::pair<Time, std::uint32_t>;

  void add_due(std::uint32_t rank);
  void advance_to(Time time);

  /// The time of the last `pop`, and the ranks due then.
  Time now_ = kNever;
  ReadySet due_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> later_;
};

}  // namespace sluice::sim
