#pragma once

#include <vector>

#include "sluice/cuda/slot_memory.hpp"
#include "sluice/task.hpp"

/// Which shapes select a graph, and which it sets.
namespace sluice::graphs {

/// Of what the pass reads: the inputs and, but for a forward, the output gradients. A forward without inputs
/// has the shapes that its outputs were given before.
[[nodiscard]] std::vector<TensorShape> selecting_shapes(Pass pass, const cuda::SlotBuffers& slot);
/// They are those that the slot has now. Allocates nothing.
[[nodiscard]] bool selected(const std::vector<TensorShape>& shapes, Pass pass, const cuda::SlotBuffers& slot);

/// Of what the pass writes and another task or rank reads.
[[nodiscard]] std::vector<TensorShape> written_shapes(Pass pass, const cuda::SlotBuffers& slot);
/// As `written_shapes` gave them for the same chunk. Allocates nothing.
void set_written_shapes(const std::vector<TensorShape>& shapes, Pass pass, cuda::SlotBuffers& slot);

}  // namespace sluice::graphs
