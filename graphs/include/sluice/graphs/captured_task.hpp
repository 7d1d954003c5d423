#pragma once

#include <cuda_runtime_api.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sluice/clock.hpp"
#include "sluice/executor.hpp"
#include "sluice/task.hpp"
#include "sluice/transport.hpp"

namespace sluice::graphs {

/// The work that one graph holds, whatever its shapes.
struct CaptureKey {
  Chunk chunk = 0;
  Pass pass = Pass::Forward;
  /// A backward that accumulates the weight gradients too.
  bool whole = false;
  Slot slot = kNoSlot;

  friend constexpr auto operator<=>(const CaptureKey&, const CaptureKey&) = default;
};

/// `B(chunk 1, slot 3, whole)`, the form used in error messages.
[[nodiscard]] std::string to_string(const CaptureKey& key);

/// Nodes of a captured graph, by kind.
struct NodeCounts {
  std::uint32_t kernels = 0;
  std::uint32_t copies = 0;
  std::uint32_t fills = 0;
  std::uint32_t host_functions = 0;
  std::uint32_t allocations = 0;  ///< and releases of graph memory
  std::uint32_t others = 0;

  [[nodiscard]] std::uint32_t total() const noexcept {
    return kernels + copies + fills + host_functions + allocations + others;
  }
  friend constexpr bool operator==(const NodeCounts&, const NodeCounts&) = default;
};

/// @throws CudaError
[[nodiscard]] NodeCounts count_nodes(cudaGraph_t graph);

/// How a replay compared with a run call by call, over all that both could change: outputs, gradients, saved
/// memory and the stage's own state.
struct Verification {
  /// Over the elements of known type.
  double max_abs_error = 0;
  /// Of the largest value in the same tensor.
  double max_rel_error = 0;
  /// Bytes without a type, such as saved memory, that differ.
  std::uint64_t bytes_different = 0;
  /// Two runs call by call agreed bit for bit.
  bool deterministic = true;

  friend constexpr bool operator==(const Verification&, const Verification&) = default;
};

/// One captured (chunk, pass, slot, shape bucket).
struct CapturedTask {
  CaptureKey key;
  Lane lane = Lane::Compute;
  /// Counts the sets of shapes of the chunk's forwards, or of its other passes, as they were met.
  std::uint32_t bucket = 0;
  /// The shapes that select it: of the inputs and, but for a forward, of the output gradients; of a forward
  /// without inputs, those of its outputs.
  std::vector<TensorShape> shapes;
  NodeCounts nodes;
  std::size_t graph_bytes = 0;  ///< of graph memory nodes, at their highest
  Duration capture{0};
  Duration instantiate{0};  ///< or update, with the upload
  bool verified = false;
  Verification verification;

  friend bool operator==(const CapturedTask&, const CapturedTask&) = default;
};

}  // namespace sluice::graphs
