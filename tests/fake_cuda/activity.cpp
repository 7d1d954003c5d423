#include "activity.hpp"

#include <thread>

namespace fakecuda {

void Activity::lock() {
  // A process that died here leaves the table locked; the others then do without it.
  for (int tries = 0; locked_.exchange(1, std::memory_order_acquire) != 0 && tries < 100000; ++tries) {
    std::this_thread::yield();
  }
}

std::optional<std::size_t> Activity::enter(const Access& access, std::optional<Access>& clash) {
  lock();
  std::optional<std::size_t> place;
  for (std::size_t i = 0; i < under_way_.size(); ++i) {
    const Access& other = under_way_[i];
    if (other.begin == other.end) {
      if (!place) place = i;
    } else if (other.begin < access.end && access.begin < other.end && (other.write || access.write)) {
      clash = other;
    }
  }
  if (place) under_way_[*place] = access;
  locked_.store(0, std::memory_order_release);
  return place;
}

void Activity::leave(std::size_t place) {
  lock();
  under_way_[place] = Access{};
  locked_.store(0, std::memory_order_release);
}

}  // namespace fakecuda
