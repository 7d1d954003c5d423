#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sluice/clock.hpp"
#include "sluice/executor.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/task.hpp"
#include "sluice/transport.hpp"

namespace sluice {

/// What happened to a rank.
enum class EventKind : std::uint8_t {
  IterationBegin,
  IterationEnd,
  /// A task was handed to the device; `value` is its slot. The decision log says why.
  Launched,
  /// A task has run: `at` is when it ended on the device, `value` when it started there.
  Ran,
  /// The rank noticed that the task has ended.
  Noticed,
  /// A message for this rank was offered; it costs no memory yet.
  Offered,
  /// It was let into the slot `value`.
  Accepted,
  /// Its payload lies in the slot.
  Arrived,
  /// A message of this rank was offered to its receiver, out of the slot `value`.
  Sent,
  /// The receiver has taken it.
  SendDone,
  /// A task could run here and the group has not decided; written once a decision.
  Asked,
};

/// One thing that happened, in 32 bytes.
struct Event {
  /// When the rank's progress() took it in; when it ended on the device for `Ran`.
  Time at{};
  std::int64_t value = 0;
  std::uint64_t iteration = 0;
  Microbatch microbatch = 0;
  /// A chunk, or an edge for messages.
  std::uint16_t place = 0;
  EventKind kind = EventKind::IterationBegin;
  /// The pass of a task (with `kWhole`), the direction of a message, or the kind of an iteration.
  std::uint8_t detail = 0;

  static constexpr std::uint8_t kWhole = 0x80;

  [[nodiscard]] constexpr Task task() const noexcept {
    return {microbatch, place, static_cast<Pass>(detail & ~kWhole)};
  }
  [[nodiscard]] constexpr bool whole() const noexcept { return (detail & kWhole) != 0; }
  [[nodiscard]] constexpr MessageId message() const noexcept {
    return {iteration, microbatch, place, static_cast<Direction>(detail)};
  }
  [[nodiscard]] constexpr Time started() const noexcept { return Time(value); }
  [[nodiscard]] constexpr Slot slot() const noexcept { return static_cast<Slot>(value); }

  [[nodiscard]] static constexpr Event of(EventKind kind, Time at, std::uint64_t iteration, const Task& task,
                                          bool whole, std::int64_t value = 0) noexcept {
    const auto detail =
        static_cast<std::uint8_t>(static_cast<std::uint8_t>(task.pass) | (whole ? kWhole : 0));
    return {at, value, iteration, task.microbatch, task.chunk, kind, detail};
  }
  [[nodiscard]] static constexpr Event of(EventKind kind, Time at, const MessageId& id,
                                          std::int64_t value = 0) noexcept {
    return {at, value, id.iteration, id.microbatch, id.edge, kind, static_cast<std::uint8_t>(id.direction)};
  }
};

static_assert(sizeof(Event) == 32);

/// The newest events of one rank, in a ring of fixed size: recording never allocates, and an event that
/// finds the ring full takes the place of the oldest one, which is counted as lost.
///
/// Only the rank's own thread records; others read between its iterations.
class Recorder {
 public:
  /// @param room events kept, rounded up to a power of two
  explicit Recorder(std::size_t room) : ring_(std::bit_ceil(std::max<std::size_t>(room, 1))) {}

  /// Events of one training iteration of a stage, at most, and as many messages of the next one.
  [[nodiscard]] static std::size_t room_for_iteration(const Pipeline& pipeline, StageId stage) {
    std::size_t ends = 0;
    for (const Chunk chunk : pipeline.chunks_of(stage))
      ends += pipeline.in_edges(chunk).size() + pipeline.out_edges(chunk).size();
    const std::size_t tasks = pipeline.chunks_of(stage).size() * kPasses;
    return 2 + pipeline.microbatches() * (tasks * kEventsPerPass + 2 * ends * kEventsPerMessage);
  }

  void record(const Event& event) noexcept { ring_[written_++ & (ring_.size() - 1)] = event; }

  /// Forgets everything.
  void clear() noexcept { written_ = 0; }

  [[nodiscard]] std::size_t room() const noexcept { return ring_.size(); }
  [[nodiscard]] std::size_t size() const noexcept {
    return static_cast<std::size_t>(std::min<std::uint64_t>(written_, ring_.size()));
  }
  /// Events overwritten since the last `clear`.
  [[nodiscard]] std::uint64_t lost() const noexcept { return written_ - size(); }
  /// @param index below `size()`; 0 is the oldest event kept
  [[nodiscard]] const Event& operator[](std::size_t index) const noexcept {
    return ring_[(written_ - size() + index) & (ring_.size() - 1)];
  }

 private:
  /// Launched, Ran, Noticed, Asked.
  static constexpr std::size_t kEventsPerPass = 4;
  /// Three where it is received, two where it is sent.
  static constexpr std::size_t kEventsPerMessage = 5;

  std::vector<Event> ring_;
  std::uint64_t written_ = 0;
};

}  // namespace sluice
