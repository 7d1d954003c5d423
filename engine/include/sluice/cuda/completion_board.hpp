#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "sluice/clock.hpp"
#include "sluice/cuda/memory.hpp"

namespace sluice::cuda {

/// What a place's device side writes, in pinned memory: times, then the count.
struct alignas(32) CompletionMark {
  std::uint64_t started_ns = 0;  ///< of the device's global timer
  std::uint64_t ended_ns = 0;
  std::uint32_t ended = 0;  ///< how often it ended since the board was made, modulo 2^32
};

/// What a place's device side counts, in device memory, where counting costs no way to the host and back.
struct PlaceCounts {
  std::uint32_t ended = 0;  ///< as in the mark
  /// Blocks that are through, of a running kernel that makes the marks itself.
  std::uint32_t blocks = 0;
};

/// Tells the host, without any call of the runtime, that work on a stream has ended: the work's own last
/// node adds one to a counter in pinned memory, which the host compares with how often it was launched. A
/// place has at most one task on the device at a time; what is captured once counts at every replay.
class CompletionBoard {
 public:
  /// On the calling thread's device, of which it asks the time: that takes about a millisecond.
  /// @throws CudaError; Error if the device does not answer
  explicit CompletionBoard(std::uint32_t places);

  /// Enqueued before and after a task's work, or captured with it.
  /// @throws CudaError
  void enqueue_start(std::uint32_t place, cudaStream_t stream) const;
  void enqueue_end(std::uint32_t place, cudaStream_t stream) const;

  /// What a kernel writes that makes both marks itself, in place of these two.
  struct DeviceSide {
    CompletionMark* mark = nullptr;
    PlaceCounts* counts = nullptr;
  };
  [[nodiscard]] DeviceSide device_side(std::uint32_t place) const noexcept;

  /// The host has launched the place's work once more.
  void launched(std::uint32_t place) noexcept { ++launches_[place]; }
  /// Everything launched at the place has ended; what it wrote is visible to this thread.
  [[nodiscard]] bool ended(std::uint32_t place) const noexcept;
  /// When it started and ended last, by the host's steady clock. Precondition: `ended(place)`.
  [[nodiscard]] Time started_at(std::uint32_t place) const noexcept;
  [[nodiscard]] Time ended_at(std::uint32_t place) const noexcept;

  /// What ended at the place was launched after the first time and seen to have ended before the second: the
  /// device's clock, which drifts from the host's, is held to that. Precondition: `ended(place)`.
  void between(std::uint32_t place, Time launched, Time seen) noexcept;

  /// What the device writes for the place, as the host sees it.
  [[nodiscard]] CompletionMark* mark(std::uint32_t place) const noexcept;
  [[nodiscard]] std::uint32_t places() const noexcept { return static_cast<std::uint32_t>(launches_.size()); }

 private:
  [[nodiscard]] Time to_host_clock(std::uint64_t device_ns) const noexcept;
  void calibrate();

  MappedMemory marks_;
  /// A PlaceCounts for each place.
  DeviceMemory counts_;
  std::vector<std::uint32_t> launches_;
  /// Added to the device's timer to get the host's steady clock.
  std::int64_t to_host_clock_ns_ = 0;
};

}  // namespace sluice::cuda
