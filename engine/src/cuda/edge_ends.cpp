#include "edge_ends.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "sluice/host/payload.hpp"
#include "sluice/host/slot_buffers.hpp"

namespace sluice::cuda {
namespace {

/// Also says no where the number of bytes would not fit its type.
bool fits(const TensorShape& shape, std::uint64_t capacity) {
  const std::span<const std::int64_t> extents(shape.extent, shape.rank);
  if (std::ranges::any_of(extents, [](std::int64_t extent) { return extent < 0; })) return false;
  if (std::ranges::find(extents, 0) != extents.end()) return true;
  std::uint64_t room = capacity / std::max<std::uint64_t>((shape.dtype_bits + 7U) / 8U, 1);
  for (const std::int64_t extent : extents) room /= static_cast<std::uint64_t>(extent);
  return room > 0;
}

}  // namespace

std::vector<SlotTensor>& EdgeEnds::outgoing(SlotMemory& slots, Direction direction, Slot slot) const {
  return direction == Direction::Activation ? slots.at(tail_position, slot).outputs[at_tail]
                                            : slots.at(head_position, slot).input_grads[at_head];
}

std::vector<SlotTensor>& EdgeEnds::incoming(SlotMemory& slots, Direction direction, Slot slot) const {
  return direction == Direction::Activation ? slots.at(head_position, slot).inputs[at_head]
                                            : slots.at(tail_position, slot).output_grads[at_tail];
}

std::vector<EdgeEnds> ends_of(const Pipeline& pipeline) {
  const auto position = [&](Chunk chunk) {
    const auto chunks = pipeline.chunks_of(pipeline.stage_of(chunk));
    return static_cast<std::uint32_t>(std::find(chunks.begin(), chunks.end(), chunk) - chunks.begin());
  };
  std::vector<EdgeEnds> ends;
  for (const Edge& edge : pipeline.edges()) {
    const auto id = static_cast<EdgeId>(ends.size());
    ends.push_back({pipeline.stage_of(edge.from), pipeline.stage_of(edge.to), position(edge.from),
                    position(edge.to), host::place_of(pipeline.out_edges(edge.from), id),
                    host::place_of(pipeline.in_edges(edge.to), id)});
  }
  return ends;
}

std::string misfit(std::span<const TensorShape> shapes, std::span<const SlotTensor> tensors) {
  if (shapes.size() != tensors.size())
    return fmt::format("it has {} tensors, the edge's layout {}", shapes.size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (shapes[i].rank > TensorShape::kMaxRank)
      return fmt::format("tensor {} has {} dimensions", i, shapes[i].rank);
    if (!fits(shapes[i], tensors[i].capacity)) {
      return fmt::format("tensor {} is {}, its slot has {} bytes: give the edge a larger layout", i,
                         host::to_string(shapes[i]), tensors[i].capacity);
    }
  }
  return {};
}

}  // namespace sluice::cuda
