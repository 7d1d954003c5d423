#pragma once

#include <atomic>
#include <cstdint>

namespace fakecuda {

/// A point in the work of a stream. Who finds that it was reached, or waits until it is, sees what the stream
/// did before.
class Point {
 public:
  void reach();
  [[nodiscard]] bool reached() const;
  /// Also tells whether it was reached, to who does not see what the stream did before.
  [[nodiscard]] bool passed() const { return reached_.load() != 0; }
  void wait() const;
  /// By the steady clock. Precondition: `reached()`.
  [[nodiscard]] std::int64_t time_ns() const { return time_ns_.load(); }

 private:
  std::atomic<std::uint32_t> reached_{0};
  std::atomic<std::int64_t> time_ns_{0};
};

}  // namespace fakecuda
