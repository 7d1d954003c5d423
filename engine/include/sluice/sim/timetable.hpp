#pragma once

#include <cstdint>
#include <queue>
#include <utility>
#include <vector>

#include "sluice/clock.hpp"

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
/// numbers, so a simulation is deterministic.
class Timetable {
 public:
  void add(Time time, std::uint32_t rank) { entries_.push({time, rank}); }
  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }
  [[nodiscard]] Time next_time() const { return entries_.top().first; }

  /// Removes and returns the first rank, with all its entries of the same time.
  std::uint32_t pop() {
    const Entry first = entries_.top();
    while (!entries_.empty() && entries_.top() == first) entries_.pop();
    return first.second;
  }
  void clear() { entries_ = {}; }

 private:
  using Entry = std::pair<Time, std::uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> entries_;
};

}  // namespace sluice::sim
