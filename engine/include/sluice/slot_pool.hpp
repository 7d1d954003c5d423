#pragma once

#include <cstdint>
#include <vector>

#include "sluice/executor.hpp"

namespace sluice {

/// Hands out slot indices in [0, size). The buffers behind them belong to the backends.
class SlotPool {
 public:
  explicit SlotPool(std::uint32_t size);

  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  [[nodiscard]] std::uint32_t free() const noexcept { return static_cast<std::uint32_t>(free_.size()); }

  /// The slot released last comes first, its memory being warm. Precondition: `free() > 0`.
  [[nodiscard]] Slot acquire() noexcept {
    const Slot slot = free_.back();
    free_.pop_back();
    return slot;
  }

  /// Precondition: the slot is in use.
  void release(Slot slot) noexcept { free_.push_back(slot); }

 private:
  std::uint32_t size_;
  std::vector<Slot> free_;
};

}  // namespace sluice
