#include "point.hpp"

#include <chrono>

#include "thread_sanitizer.hpp"

namespace fakecuda {

void Point::reach() {
  time_ns_.store(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
  release_edge(this);
  reached_.store(1);
  reached_.notify_all();
}

bool Point::reached() const {
  if (reached_.load() == 0) return false;
  acquire_edge(this);
  return true;
}

void Point::wait() const {
  reached_.wait(0);
  acquire_edge(this);
}

}  // namespace fakecuda
