#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <vector>

#include "call.hpp"
#include "capture.hpp"
#include "graph_exec.hpp"

namespace fakecuda {
namespace {

/// Gives a list out the way the runtime does: how many there are, or those that fit.
template <typename Out, typename Value>
void give(Out* out, std::size_t capacity, std::size_t index, const Value& value) {
  if (out != nullptr && index < capacity) out[index] = value;
}

cudaError_t give_edges(cudaGraph_t handle, const Graph& graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                       cudaGraphEdgeData* data, std::size_t* count) {
  const std::size_t capacity = *count;
  std::size_t edges = 0;
  for (std::size_t node = 0; node < graph.nodes().size(); ++node) {
    for (const std::size_t before : graph.nodes()[node].dependencies) {
      give(from, capacity, edges, node_handle(handle, before));
      give(to, capacity, edges, node_handle(handle, node));
      give(data, capacity, edges, cudaGraphEdgeData{});
      ++edges;
    }
  }
  *count = from != nullptr ? std::min(edges, capacity) : edges;
  return cudaSuccess;
}

cudaError_t give_nodes(cudaGraph_t handle, const Graph& graph, bool roots_only, cudaGraphNode_t* out,
                       std::size_t* count) {
  const std::size_t capacity = *count;
  std::size_t nodes = 0;
  for (std::size_t node = 0; node < graph.nodes().size(); ++node) {
    if (roots_only && !graph.nodes()[node].dependencies.empty()) continue;
    give(out, capacity, nodes++, node_handle(handle, node));
  }
  *count = out != nullptr ? std::min(nodes, capacity) : nodes;
  return cudaSuccess;
}

cudaError_t instantiate(cudaGraphExec_t* exec, cudaGraph_t handle, unsigned long long flags) {
  const auto graph = graphs().find(handle);
  if (exec == nullptr || graph == nullptr) return cudaErrorInvalidValue;
  auto made = std::make_shared<GraphExec>(*graph, flags);
  if ((flags & cudaGraphInstantiateFlagUpload) != 0U) made->reserve_memory();
  *exec = graph_execs().add(std::move(made));
  return cudaSuccess;
}

cudaError_t launch(cudaGraphExec_t handle, cudaStream_t stream_handle) {
  const auto exec = graph_execs().find(handle);
  if (exec == nullptr) return cudaErrorInvalidValue;
  const auto stream = find_stream(stream_handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (captures::capturing(*stream)) return cudaErrorStreamCaptureUnsupported;
  const bool frees = (exec->flags() & cudaGraphInstantiateFlagAutoFreeOnLaunch) != 0U;
  if (exec->holds_memory() && !frees) return cudaErrorInvalidValue;
  auto work = std::make_shared<Work>();
  work->type = cudaGraphNodeTypeGraph;
  work->label = "graph";
  work->run = [exec, nodes = exec->nodes(), frees] {
    if (frees) exec->free_memory();
    exec->run(nodes);
    return cudaSuccess;
  };
  const cudaError_t error = submit(stream_handle, std::move(work));
  if (error == cudaSuccess) exec->hold_memory();
  return error;
}

cudaError_t update(cudaGraphExec_t exec_handle, cudaGraph_t handle, cudaGraphExecUpdateResultInfo* info) {
  const auto exec = graph_execs().find(exec_handle);
  const auto graph = graphs().find(handle);
  if (exec == nullptr || graph == nullptr || info == nullptr) return cudaErrorInvalidValue;
  *info = {};
  std::size_t node = 0;
  info->result = exec->update(*graph, node);
  if (node < graph->nodes().size()) info->errorNode = node_handle(handle, node);
  return info->result == cudaGraphExecUpdateSuccess ? cudaSuccess : cudaErrorGraphExecUpdateFailure;
}

template <typename Body>
cudaError_t with_node(cudaGraphNode_t handle, Body body) {
  const auto found = find_node(handle);
  return found ? body(*found) : cudaErrorInvalidValue;
}

}  // namespace
}  // namespace fakecuda

using namespace fakecuda;  // NOLINT(google-build-using-namespace): the runtime's functions lie outside

cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, std::size_t* count) {
  return call("cudaGraphGetNodes", [&] {
    const auto graph = graphs().find(handle);
    return graph == nullptr ? cudaErrorInvalidValue : give_nodes(handle, *graph, false, nodes, count);
  });
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, std::size_t* count) {
  return call("cudaGraphGetRootNodes", [&] {
    const auto graph = graphs().find(handle);
    return graph == nullptr ? cudaErrorInvalidValue : give_nodes(handle, *graph, true, nodes, count);
  });
}

cudaError_t cudaGraphGetEdges(cudaGraph_t handle, cudaGraphNode_t* from, cudaGraphNode_t* to,
                              cudaGraphEdgeData* data, std::size_t* count) {
  return call("cudaGraphGetEdges", [&] {
    const auto graph = graphs().find(handle);
    return graph == nullptr ? cudaErrorInvalidValue : give_edges(handle, *graph, from, to, data, count);
  });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return call("cudaGraphNodeGetType", [&] {
    return with_node(node, [&](const FoundNode& found) {
      *type = found.node().work->type;
      return cudaSuccess;
    });
  });
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* dependencies,
                                         cudaGraphEdgeData* data, std::size_t* count) {
  return call("cudaGraphNodeGetDependencies", [&] {
    return with_node(node, [&](const FoundNode& found) {
      const auto first = reinterpret_cast<std::uintptr_t>(node) - found.index;
      const auto& before = found.node().dependencies;
      const std::size_t capacity = *count;
      for (std::size_t i = 0; i < before.size(); ++i) {
        give(dependencies, capacity, i, reinterpret_cast<cudaGraphNode_t>(first + before[i]));
        give(data, capacity, i, cudaGraphEdgeData{});
      }
      *count = dependencies != nullptr ? std::min(before.size(), capacity) : before.size();
      return cudaSuccess;
    });
  });
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* parameters) {
  return call("cudaGraphKernelNodeGetParams", [&] {
    return with_node(node, [&](const FoundNode& found) {
      const auto& kernel = found.node().work->kernel;
      if (kernel == nullptr || parameters == nullptr) return cudaErrorInvalidValue;
      *parameters = {};
      parameters->func = const_cast<void*>(kernel->function);
      parameters->gridDim = kernel->grid;
      parameters->blockDim = kernel->block;
      parameters->sharedMemBytes = kernel->shared_bytes;
      parameters->kernelParams = kernel->pointers.data();
      return cudaSuccess;
    });
  });
}

cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t handle) {
  return call("cudaGraphClone", [&] {
    const auto graph = graphs().find(handle);
    if (graph == nullptr || clone == nullptr) return cudaErrorInvalidValue;
    const bool has_memory = std::any_of(graph->nodes().begin(), graph->nodes().end(),
                                        [](const Node& node) { return node.work->memory != nullptr; });
    if (has_memory) return cudaErrorNotSupported;
    *clone = graphs().add(std::make_shared<Graph>(*graph));
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return release_call("cudaGraphDestroy", [&] {
    return graphs().remove(graph) != nullptr ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t handle, const char* path, unsigned flags) {
  return call("cudaGraphDebugDotPrint", [&] {
    const auto graph = graphs().find(handle);
    if (graph == nullptr || path == nullptr) return cudaErrorInvalidValue;
    std::ofstream file(path);
    file << graph->dot((flags & cudaGraphDebugDotFlagsVerbose) != 0U);
    file.close();
    return file ? cudaSuccess : cudaErrorOperatingSystem;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  return call("cudaGraphInstantiate", [&] { return instantiate(exec, graph, flags); });
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long flags) {
  return call("cudaGraphInstantiateWithFlags", [&] { return instantiate(exec, graph, flags); });
}

cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* exec, cudaGraph_t graph,
                                           cudaGraphInstantiateParams* parameters) {
  return call("cudaGraphInstantiateWithParams", [&] {
    if (parameters == nullptr) return cudaErrorInvalidValue;
    const cudaError_t error = instantiate(exec, graph, parameters->flags);
    parameters->errNode_out = nullptr;
    parameters->result_out = error == cudaSuccess ? cudaGraphInstantiateSuccess : cudaGraphInstantiateError;
    return error;
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t handle, cudaStream_t stream_handle) {
  return call("cudaGraphUpload", [&] {
    const auto exec = graph_execs().find(handle);
    if (exec == nullptr) return cudaErrorInvalidValue;
    auto work = std::make_shared<Work>();
    work->type = cudaGraphNodeTypeGraph;
    work->label = "upload of a graph";
    work->run = [exec] {
      exec->reserve_memory();
      return cudaSuccess;
    };
    return submit(stream_handle, std::move(work));
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return call("cudaGraphLaunch", [&] { return launch(exec, stream); });
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* info) {
  return call("cudaGraphExecUpdate", [&] { return update(exec, graph, info); });
}

cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t handle, unsigned long long* flags) {
  return call("cudaGraphExecGetFlags", [&] {
    const auto exec = graph_execs().find(handle);
    if (exec == nullptr || flags == nullptr) return cudaErrorInvalidValue;
    *flags = exec->flags();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return release_call("cudaGraphExecDestroy", [&] {
    return graph_execs().remove(exec) != nullptr ? cudaSuccess : cudaErrorInvalidValue;
  });
}
