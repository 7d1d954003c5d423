#pragma once

#include <algorithm>
#include <cstdint>

#include "sluice/executor.hpp"
#include "sluice/task.hpp"

namespace sluice::nvtx {

/// What the 64-bit payload of a task's range or of an arrival's mark says, from the low bits up: microbatch
/// (24), chunk or edge (16), slot (16), iteration (8, the low ones).
struct Payload {
  /// As many as a pipeline can have.
  static constexpr std::uint32_t kMostMicrobatches = 1U << 24U;
  /// No slot, or one that does not fit.
  static constexpr std::uint16_t kOtherSlot = 0xffff;

  Microbatch microbatch = 0;
  /// Chunk of a task, edge of a message.
  std::uint16_t place = 0;
  std::uint16_t slot = kOtherSlot;
  std::uint8_t iteration = 0;

  /// @param microbatch below `kMostMicrobatches`
  [[nodiscard]] static constexpr Payload of(Microbatch microbatch, std::uint16_t place, Slot slot,
                                            std::uint64_t iteration) noexcept {
    return {microbatch, place, static_cast<std::uint16_t>(std::min<Slot>(slot, kOtherSlot)),
            static_cast<std::uint8_t>(iteration)};
  }
  [[nodiscard]] constexpr std::uint64_t packed() const noexcept {
    return microbatch | (std::uint64_t{place} << 24U) | (std::uint64_t{slot} << 40U) |
           (std::uint64_t{iteration} << 56U);
  }
  [[nodiscard]] static constexpr Payload unpacked(std::uint64_t bits) noexcept {
    return {static_cast<Microbatch>(bits & (kMostMicrobatches - 1)), static_cast<std::uint16_t>(bits >> 24U),
            static_cast<std::uint16_t>(bits >> 40U), static_cast<std::uint8_t>(bits >> 56U)};
  }

  friend constexpr bool operator==(const Payload&, const Payload&) = default;
};

/// What the payload of a decision's mark says, from the low bits up: runnable forwards, backwards and weight
/// gradients (16 bits each, the chosen task included), and microbatches that the limit held back (16).
struct DecisionPayload {
  std::uint16_t runnable[kPasses] = {};
  std::uint16_t held_by_limit = 0;

  /// Counts that do not fit become the largest that does.
  [[nodiscard]] static constexpr std::uint16_t clamped(std::uint32_t count) noexcept {
    return static_cast<std::uint16_t>(std::min<std::uint32_t>(count, 0xffff));
  }
  [[nodiscard]] constexpr std::uint64_t packed() const noexcept {
    return runnable[0] | (std::uint64_t{runnable[1]} << 16U) | (std::uint64_t{runnable[2]} << 32U) |
           (std::uint64_t{held_by_limit} << 48U);
  }
  [[nodiscard]] static constexpr DecisionPayload unpacked(std::uint64_t bits) noexcept {
    return {{static_cast<std::uint16_t>(bits), static_cast<std::uint16_t>(bits >> 16U),
             static_cast<std::uint16_t>(bits >> 32U)},
            static_cast<std::uint16_t>(bits >> 48U)};
  }

  friend constexpr bool operator==(const DecisionPayload&, const DecisionPayload&) = default;
};

}  // namespace sluice::nvtx
