#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sluice/graphs/manifest.hpp"

namespace sluice::graphs {

/// Time of the host to launch a graph, from below and from above. The figures given here are published
/// ones, for repeated launches, of "Constant Time Launch for Straight-Line CUDA Graphs and Other Performance
/// Enhancements" (NVIDIA, 2024): 2.5 us and about 1 ns a node for a straight line of kernels since CUDA 12.6;
/// 2 us and 200 ns a node before.
struct LaunchCost {
  double least_us = 2.5;
  double least_node_us = 0.001;
  double most_us = 2.0;
  double most_node_us = 0.2;
  /// Completes "an estimate".
  std::string source =
      "from NVIDIA's published figures, the lower for a straight line of kernels since CUDA 12.6 and the "
      "higher for launches before (\"Constant Time Launch for Straight-Line CUDA Graphs\", 2024); not "
      "measured "
      "on this machine";
};

/// Sums over a manifest's tasks.
struct ManifestTotals {
  std::uint32_t graphs = 0;
  std::uint64_t nodes = 0;
  std::uint32_t fewest_nodes = 0;  ///< of a graph
  std::uint32_t most_nodes = 0;
  Duration capture{0};
  Duration instantiate{0};
  /// Of graph memory nodes: graphs of one lane run one after the other and share it, so of each lane the
  /// largest.
  std::uint64_t graph_bytes = 0;
  std::uint32_t unverified = 0;
  std::uint32_t not_deterministic = 0;
};

[[nodiscard]] ManifestTotals totals(const Manifest& manifest);

/// Says that chunks save memory outside their slots, which the manifest's figures do not count; empty if none
/// does.
[[nodiscard]] std::string uncounted_memory(const Manifest& manifest);

/// Largest limit whose slots fit in so many bytes beside the temporary and the graphs' memory: a stage of
/// several chunks has a slot more for each. 0 if none fits, for then not one microbatch does; nothing if
/// slots take no memory, so that every limit fits.
/// @throws ConfigError naming `saves_outside_slot` if `uncounted_memory` has something to say: what a slot
///         takes is not known then
[[nodiscard]] std::optional<std::uint64_t> limit_within(const Manifest& manifest, std::uint64_t bytes);

/// Text for people: what was captured, what it takes, what launching it costs, and which limit fits in
/// `memory_bytes` if that is given.
[[nodiscard]] std::string explain(const Manifest& manifest, std::optional<std::uint64_t> memory_bytes = {},
                                  const LaunchCost& cost = {});

}  // namespace sluice::graphs
