#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "handles.hpp"
#include "work.hpp"

namespace fakecuda {

struct Node {
  std::shared_ptr<const Work> work;
  /// Earlier nodes it follows directly, ascending.
  std::vector<std::size_t> dependencies;
};

/// A graph: nodes in an order that respects their dependencies.
class Graph {
 public:
  /// @return its index
  std::size_t add(std::shared_ptr<const Work> work, std::vector<std::size_t> dependencies);
  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
  /// Whether each of the nodes is among `from` or what those follow, directly or not.
  [[nodiscard]] bool reaches(const std::vector<std::size_t>& from,
                             const std::vector<std::size_t>& nodes) const;
  [[nodiscard]] std::string dot(bool verbose) const;

 private:
  std::vector<Node> nodes_;
};

using Graphs = Handles<Graph, cudaGraph_t>;
Graphs& graphs();

/// The handle of a graph's node.
[[nodiscard]] cudaGraphNode_t node_handle(cudaGraph_t graph, std::size_t index);
/// The node behind a handle; null if there is none. The graph keeps it.
struct FoundNode {
  std::shared_ptr<Graph> graph;
  std::size_t index = 0;
  [[nodiscard]] const Node& node() const { return graph->nodes()[index]; }
};
[[nodiscard]] std::optional<FoundNode> find_node(cudaGraphNode_t handle);

[[nodiscard]] const char* type_name(cudaGraphNodeType type);

}  // namespace fakecuda
