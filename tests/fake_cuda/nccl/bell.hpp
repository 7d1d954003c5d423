#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace fakenccl {

/// What threads of several processes wait at for a change of what they share. Lies in shared memory.
class Bell {
 public:
  /// To be read before looking whether there is anything to wait for.
  [[nodiscard]] std::uint32_t count() const { return count_.load(); }
  void ring();
  /// Returns when it was rung since it had this count, and after a while in any case.
  void wait(std::uint32_t count, std::chrono::microseconds most) const;

 private:
  std::atomic<std::uint32_t> count_{0};
};

}  // namespace fakenccl
