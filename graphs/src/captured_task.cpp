#include "sluice/graphs/captured_task.hpp"

#include <fmt/format.h>

#include "sluice/cuda/cuda_error.hpp"

namespace sluice::graphs {
namespace {

std::uint32_t& count_of(NodeCounts& counts, cudaGraphNodeType type) {
  switch (type) {
    case cudaGraphNodeTypeKernel:
      return counts.kernels;
    case cudaGraphNodeTypeMemcpy:
      return counts.copies;
    case cudaGraphNodeTypeMemset:
      return counts.fills;
    case cudaGraphNodeTypeHost:
      return counts.host_functions;
    case cudaGraphNodeTypeMemAlloc:
    case cudaGraphNodeTypeMemFree:
      return counts.allocations;
    default:
      return counts.others;
  }
}

}  // namespace

std::string to_string(const CaptureKey& key) {
  return fmt::format("{}(chunk {}, slot {}{})", letter(key.pass), key.chunk, key.slot,
                     key.whole ? ", whole" : "");
}

NodeCounts count_nodes(cudaGraph_t graph) {
  std::size_t size = 0;
  cuda::check(cudaGraphGetNodes(graph, nullptr, &size), "counting the nodes of a graph");
  std::vector<cudaGraphNode_t> nodes(size);
  if (size > 0) cuda::check(cudaGraphGetNodes(graph, nodes.data(), &size), "listing the nodes of a graph");
  NodeCounts counts;
  for (const cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type{};
    cuda::check(cudaGraphNodeGetType(node, &type), "asking for the kind of a graph's node");
    ++count_of(counts, type);
  }
  return counts;
}

}  // namespace sluice::graphs
