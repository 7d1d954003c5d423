#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sluice::cuda {

/// A bounded queue of records of one size, in memory that its writer and its reader share; each has a view
/// of it. Neither locks or waits.
class IpcRing {
 public:
  static constexpr std::size_t kCacheLine = 64;

  /// Before the records: how many were written and how many read, since the memory was zeroed.
  struct Counts {
    alignas(kCacheLine) std::atomic<std::uint64_t> written;
    alignas(kCacheLine) std::atomic<std::uint64_t> read;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

  /// Bytes of memory for so many records.
  static constexpr std::size_t bytes(std::size_t capacity, std::size_t record_bytes) noexcept {
    return sizeof(Counts) + (capacity * record_bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
  }

  IpcRing() = default;
  /// @param memory of `bytes()`, zeroed before its first use and aligned to a cache line
  IpcRing(std::byte* memory, std::size_t capacity, std::size_t record_bytes) noexcept
      : counts_(reinterpret_cast<Counts*>(memory)),
        records_(memory + sizeof(Counts)),
        capacity_(capacity),
        record_bytes_(record_bytes) {}

  /// The writer's: the record to be filled, null when the ring is full; then `written`.
  [[nodiscard]] std::byte* back() const noexcept {
    const std::uint64_t written = counts_->written.load(std::memory_order_relaxed);
    if (written - counts_->read.load(std::memory_order_acquire) == capacity_) return nullptr;
    return at(written);
  }
  void written() const noexcept {
    counts_->written.store(counts_->written.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  /// The reader's: the oldest record, null when there is none; then `read`.
  [[nodiscard]] const std::byte* front() const noexcept {
    const std::uint64_t read = counts_->read.load(std::memory_order_relaxed);
    if (read == counts_->written.load(std::memory_order_acquire)) return nullptr;
    return at(read);
  }
  void read() const noexcept {
    counts_->read.store(counts_->read.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

 private:
  [[nodiscard]] std::byte* at(std::uint64_t count) const noexcept {
    return records_ + count % capacity_ * record_bytes_;
  }

  Counts* counts_ = nullptr;
  std::byte* records_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t record_bytes_ = 0;
};

}  // namespace sluice::cuda
