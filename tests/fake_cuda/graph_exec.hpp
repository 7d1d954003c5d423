#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <vector>

#include "graph.hpp"
#include "thread_sanitizer.hpp"

namespace fakecuda {

/// A graph made ready to be launched.
///
/// A launch runs the nodes one after another, in a random order that respects their dependencies. Under
/// ThreadSanitizer each path through the graph is a logical thread of its own, and a node sees what the nodes
/// did that it follows, and nothing else.
class GraphExec {
 public:
  GraphExec(const Graph& graph, unsigned long long flags);
  ~GraphExec();
  GraphExec(const GraphExec&) = delete;
  GraphExec& operator=(const GraphExec&) = delete;

  using Nodes = std::shared_ptr<const std::vector<Node>>;
  /// What a launch now would run.
  [[nodiscard]] Nodes nodes() const;
  [[nodiscard]] unsigned long long flags() const { return flags_; }
  /// Backs the memory nodes' memory.
  void reserve_memory();
  /// Memory that it allocates and does not free is there from an earlier launch, once what is enqueued has
  /// run.
  [[nodiscard]] bool holds_memory() const;
  /// Another launch is enqueued.
  void hold_memory();
  /// Frees what is there, in front of a launch.
  void free_memory();

  /// Takes other parameters of a graph of the same shape.
  /// @param node out: where they differ
  cudaGraphExecUpdateResult update(const Graph& graph, std::size_t& node);

  /// By a stream's worker: behind all earlier launches, on whatever stream.
  void run(const Nodes& nodes);

 private:
  void assign_fibers();
  void run_node(const Node& node, std::size_t index);

  unsigned long long flags_;
  mutable std::mutex nodes_mutex_;
  Nodes nodes_;

  std::mutex running_;
  std::vector<std::size_t> fiber_of_;
  std::size_t fiber_count_ = 0;
  Fibers fibers_;
  /// Their addresses are where the edges are made.
  std::vector<char> ended_;
  char started_ = 0;
  char launched_ = 0;
};

using GraphExecs = Handles<GraphExec, cudaGraphExec_t>;
GraphExecs& graph_execs();

}  // namespace fakecuda
