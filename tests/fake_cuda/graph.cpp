#include "graph.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

namespace fakecuda {

std::size_t Graph::add(std::shared_ptr<const Work> work, std::vector<std::size_t> dependencies) {
  std::sort(dependencies.begin(), dependencies.end());
  dependencies.erase(std::unique(dependencies.begin(), dependencies.end()), dependencies.end());
  nodes_.push_back({std::move(work), std::move(dependencies)});
  return nodes_.size() - 1;
}

bool Graph::reaches(const std::vector<std::size_t>& from, const std::vector<std::size_t>& nodes) const {
  std::vector<bool> reached(nodes_.size(), false);
  for (const std::size_t node : from) reached[node] = true;
  for (std::size_t node = nodes_.size(); node-- > 0;) {
    if (!reached[node]) continue;
    for (const std::size_t before : nodes_[node].dependencies) reached[before] = true;
  }
  return std::all_of(nodes.begin(), nodes.end(), [&](std::size_t node) { return reached[node]; });
}

std::string Graph::dot(bool verbose) const {
  std::ostringstream text;
  text << "digraph dot {\n";
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    std::string label = type_name(nodes_[i].work->type);
    if (verbose) label += "\\n" + nodes_[i].work->label;
    text << "  \"node_" << i << "\" [label=\"" << label << "\"];\n";
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    for (const std::size_t before : nodes_[i].dependencies) {
      text << "  \"node_" << before << "\" -> \"node_" << i << "\";\n";
    }
  }
  text << "}\n";
  return text.str();
}

Graphs& graphs() {
  static auto& handles = *new Graphs;
  return handles;
}

cudaGraphNode_t node_handle(cudaGraph_t graph, std::size_t index) {
  return reinterpret_cast<cudaGraphNode_t>(reinterpret_cast<std::uintptr_t>(graph) + 1 + index);
}

std::optional<FoundNode> find_node(cudaGraphNode_t handle) {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  const std::uintptr_t index = number % Graphs::kStep;
  const auto graph = graphs().find(reinterpret_cast<cudaGraph_t>(number - index));
  if (graph == nullptr || index == 0 || index > graph->nodes().size()) return std::nullopt;
  return FoundNode{graph, index - 1};
}

const char* type_name(cudaGraphNodeType type) {
  switch (type) {
    case cudaGraphNodeTypeKernel:
      return "KERNEL";
    case cudaGraphNodeTypeMemcpy:
      return "MEMCPY";
    case cudaGraphNodeTypeMemset:
      return "MEMSET";
    case cudaGraphNodeTypeHost:
      return "HOST";
    case cudaGraphNodeTypeEmpty:
      return "EMPTY";
    case cudaGraphNodeTypeWaitEvent:
      return "EVENT_WAIT";
    case cudaGraphNodeTypeEventRecord:
      return "EVENT_RECORD";
    case cudaGraphNodeTypeMemAlloc:
      return "MEM_ALLOC";
    case cudaGraphNodeTypeMemFree:
      return "MEM_FREE";
    default:
      return type == kBatchMemoryOperation ? "BATCH_MEM_OP" : "OTHER";
  }
}

}  // namespace fakecuda
