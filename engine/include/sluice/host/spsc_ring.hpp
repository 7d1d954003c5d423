#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <utility>
#include <vector>

namespace sluice::host {

/// A bounded queue between one producing and one consuming thread. Lock-free; allocates only when built.
template <typename T>
class SpscRing {
 public:
  /// @param capacity least number of items it must hold
  explicit SpscRing(std::size_t capacity) : items_(std::bit_ceil(capacity + 1)) {}

  /// False when full.
  bool push(T item) noexcept {
    const std::size_t tail = tail_.load(std::memory_order_relaxed);
    const std::size_t next = (tail + 1) & (items_.size() - 1);
    if (next == head_.load(std::memory_order_acquire)) return false;
    items_[tail] = std::move(item);
    tail_.store(next, std::memory_order_release);
    return true;
  }

  /// False when empty.
  bool pop(T& item) noexcept {
    const std::size_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_.load(std::memory_order_acquire)) return false;
    item = std::move(items_[head]);
    head_.store((head + 1) & (items_.size() - 1), std::memory_order_release);
    return true;
  }

  [[nodiscard]] bool empty() const noexcept {
    return head_.load(std::memory_order_acquire) == tail_.load(std::memory_order_acquire);
  }

 private:
  static constexpr std::size_t kCacheLine = 64;

  std::vector<T> items_;
  alignas(kCacheLine) std::atomic<std::size_t> head_{0};
  alignas(kCacheLine) std::atomic<std::size_t> tail_{0};
};

}  // namespace sluice::host
