#include "sluice/host/slot_buffers.hpp"

#include <algorithm>

namespace sluice::host {

SlotBuffers::SlotBuffers(const Pipeline& pipeline, StageId stage, std::uint32_t slots) : buffers_(slots) {
  std::size_t in = 0;
  std::size_t out = 0;
  for (const Chunk chunk : pipeline.chunks_of(stage)) {
    in = std::max(in, pipeline.in_edges(chunk).size());
    out = std::max(out, pipeline.out_edges(chunk).size());
  }
  for (SlotBuffer& buffer : buffers_) {
    buffer.inputs.resize(in);
    buffer.input_grads.resize(in);
    buffer.input_shapes.resize(in);
    buffer.outputs.resize(out);
    buffer.output_grads.resize(out);
  }
}

std::size_t place_of(std::span<const EdgeId> edges, EdgeId edge) {
  return static_cast<std::size_t>(std::find(edges.begin(), edges.end(), edge) - edges.begin());
}

}  // namespace sluice::host
