#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sluice/cuda/slot_memory.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/transport.hpp"

namespace sluice::cuda {

/// The two ends of an edge: the chunks' places on their stages, and the edge's among those of the chunks.
struct EdgeEnds {
  StageId tail_stage = 0;
  StageId head_stage = 0;
  std::uint32_t tail_position = 0;
  std::uint32_t head_position = 0;
  std::size_t at_tail = 0;
  std::size_t at_head = 0;

  [[nodiscard]] StageId sender(Direction direction) const noexcept {
    return direction == Direction::Activation ? tail_stage : head_stage;
  }
  [[nodiscard]] StageId receiver(Direction direction) const noexcept {
    return direction == Direction::Activation ? head_stage : tail_stage;
  }
  /// Where the sender of a message finds its tensors.
  [[nodiscard]] std::vector<SlotTensor>& outgoing(SlotMemory& slots, Direction direction, Slot slot) const;
  /// Where they go at its receiver.
  [[nodiscard]] std::vector<SlotTensor>& incoming(SlotMemory& slots, Direction direction, Slot slot) const;
};

/// Whether a direction that came from elsewhere is one.
[[nodiscard]] constexpr bool is_known(Direction direction) noexcept {
  return direction == Direction::Activation || direction == Direction::Gradient;
}

/// By edge of the pipeline.
[[nodiscard]] std::vector<EdgeEnds> ends_of(const Pipeline& pipeline);

/// Why a message of such tensors, which may come from elsewhere, does not fit a slot; empty if it does. Every
/// slot is laid out alike, so that this shows before one is taken.
[[nodiscard]] std::string misfit(std::span<const TensorShape> shapes, std::span<const SlotTensor> tensors);

}  // namespace sluice::cuda
