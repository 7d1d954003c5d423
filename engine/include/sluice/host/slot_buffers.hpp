#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sluice/host/payload.hpp"
#include "sluice/pipeline.hpp"

namespace sluice::host {

/// What one (chunk, microbatch) holds at its chunk's edges while in flight. Edges are counted in the
/// order of the chunk's own in-edges and out-edges.
struct SlotBuffer {
  std::vector<Payload> inputs;
  std::vector<Payload> outputs;
  std::vector<Payload> output_grads;
  std::vector<Payload> input_grads;
  /// Shapes of the inputs, by which their gradients are checked.
  std::vector<std::vector<TensorShape>> input_shapes;
};

/// The memory behind a rank's slots, shared by its executor and its transport.
class SlotBuffers {
 public:
  SlotBuffers(const Pipeline& pipeline, StageId stage, std::uint32_t slots);

  [[nodiscard]] SlotBuffer& operator[](Slot slot) { return buffers_[slot]; }
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(buffers_.size()); }

 private:
  std::vector<SlotBuffer> buffers_;
};

/// Place of an edge among those of one end.
[[nodiscard]] std::size_t place_of(std::span<const EdgeId> edges, EdgeId edge);

}  // namespace sluice::host
