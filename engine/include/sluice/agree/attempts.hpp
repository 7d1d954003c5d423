#pragma once

#include <cstdint>
#include <vector>

namespace sluice::agree {

/// Numbers the attempts of a group: every member contributes once to each, and a peer is at most one attempt
/// ahead. Numbers go on through all iterations.
class Attempts {
 public:
  enum class Fault : std::uint8_t { None, Repeated, OutOfOrder };

  Attempts(std::uint32_t members, std::uint32_t member) : member_(member), last_(members) {}

  /// The attempt that is not yet concluded here; the first is 1.
  [[nodiscard]] std::uint64_t current() const noexcept { return current_; }
  [[nodiscard]] bool has_contributed(std::uint32_t member) const noexcept {
    return last_[member] >= current_;
  }
  [[nodiscard]] bool joined() const noexcept { return has_contributed(member_); }
  [[nodiscard]] bool complete() const noexcept {
    for (const std::uint64_t last : last_) {
      if (last < current_) return false;
    }
    return true;
  }

  /// A member's contribution, this rank's included.
  [[nodiscard]] Fault contribute(std::uint32_t member, std::uint64_t attempt) noexcept {
    if (attempt <= last_[member]) return Fault::Repeated;
    // One that this rank has not joined cannot be over for anybody.
    if (attempt != last_[member] + 1 || attempt > current_ + (joined() ? 1 : 0)) return Fault::OutOfOrder;
    last_[member] = attempt;
    return Fault::None;
  }
  /// Precondition: complete.
  void conclude() noexcept { ++current_; }

 private:
  std::uint32_t member_;
  std::uint64_t current_ = 1;
  /// The last attempt that each member has contributed to.
  std::vector<std::uint64_t> last_;
};

}  // namespace sluice::agree
