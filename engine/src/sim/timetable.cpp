#include "sluice/sim/timetable.hpp"

#include <bit>

namespace sluice::sim {

void Timetable::add_due(std::uint32_t rank) {
  if (rank >= due_.capacity()) {
    ReadySet larger(std::bit_ceil(rank + 1));
    for (std::uint32_t member = due_.first(); member != ReadySet::kNone; member = due_.first()) {
      larger.insert(member);
      due_.erase(member);
    }
    due_ = std::move(larger);
  }
  due_.insert(rank);
}

void Timetable::advance_to(Time time) {
  if (time != now_) {
    // Only if something was added for a time that has passed.
    for (std::uint32_t rank = due_.first(); rank != ReadySet::kNone; rank = due_.first()) {
      later_.push({now_, rank});
      due_.erase(rank);
    }
    now_ = time;
  }
  while (!later_.empty() && later_.top().first == now_) {
    add_due(later_.top().second);
    later_.pop();
  }
}

}  // namespace sluice::sim
