#include "graph_exec.hpp"

#include <algorithm>
#include <limits>

#include "chance.hpp"
#include "graph_memory.hpp"

namespace fakecuda {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

/// The allocations of a graph's nodes that none of its own nodes frees.
std::vector<std::shared_ptr<Allocation>> kept_memory(const std::vector<Node>& nodes) {
  std::vector<std::shared_ptr<Allocation>> kept;
  for (const Node& node : nodes) {
    if (node.work->type == cudaGraphNodeTypeMemAlloc) kept.push_back(node.work->memory);
    if (node.work->type == cudaGraphNodeTypeMemFree) std::erase(kept, node.work->memory);
  }
  return kept;
}

/// Why an executable node cannot become the other one.
cudaGraphExecUpdateResult compare(const Node& now, const Node& other) {
  if (now.work->type != other.work->type) return cudaGraphExecUpdateErrorNodeTypeChanged;
  if (now.dependencies != other.dependencies) return cudaGraphExecUpdateErrorTopologyChanged;
  const bool memory_node =
      now.work->type == cudaGraphNodeTypeMemAlloc || now.work->type == cudaGraphNodeTypeMemFree;
  if (memory_node && now.work->memory != other.work->memory) return cudaGraphExecUpdateErrorNotSupported;
  return cudaGraphExecUpdateSuccess;
}

}  // namespace

GraphExec::GraphExec(const Graph& graph, unsigned long long flags)
    : flags_(flags),
      nodes_(std::make_shared<const std::vector<Node>>(graph.nodes())),
      ended_(nodes_->size()) {
  assign_fibers();
}

GraphExec::~GraphExec() = default;

void GraphExec::assign_fibers() {
  // A node goes on as the fiber of one that it follows, if no other has yet.
  std::vector<bool> taken(nodes_->size(), false);
  for (std::size_t i = 0; i < nodes_->size(); ++i) {
    std::size_t fiber = kNone;
    for (const std::size_t before : (*nodes_)[i].dependencies) {
      if (taken[before]) continue;
      taken[before] = true;
      fiber = fiber_of_[before];
      break;
    }
    fiber_of_.push_back(fiber == kNone ? fiber_count_++ : fiber);
  }
}

GraphExec::Nodes GraphExec::nodes() const {
  const std::lock_guard lock(nodes_mutex_);
  return nodes_;
}

void GraphExec::reserve_memory() {
  for (const Node& node : *nodes()) {
    if (node.work->type == cudaGraphNodeTypeMemAlloc) graph_memory::reserve(*node.work->memory);
  }
}

bool GraphExec::holds_memory() const {
  const auto kept = kept_memory(*nodes());
  return std::any_of(kept.begin(), kept.end(), [](const auto& memory) { return memory->held(); });
}

void GraphExec::hold_memory() {
  for (const auto& memory : kept_memory(*nodes())) memory->set_held(true);
}

void GraphExec::free_memory() {
  for (const auto& memory : kept_memory(*nodes())) {
    if (memory->live()) graph_memory::end(*memory);
  }
}

cudaGraphExecUpdateResult GraphExec::update(const Graph& graph, std::size_t& node) {
  const std::lock_guard lock(nodes_mutex_);
  node = kNone;
  if (graph.nodes().size() != nodes_->size()) return cudaGraphExecUpdateErrorTopologyChanged;
  for (std::size_t i = 0; i < nodes_->size(); ++i) {
    const cudaGraphExecUpdateResult result = compare((*nodes_)[i], graph.nodes()[i]);
    if (result == cudaGraphExecUpdateSuccess) continue;
    node = i;
    return result;
  }
  nodes_ = std::make_shared<const std::vector<Node>>(graph.nodes());
  return cudaGraphExecUpdateSuccess;
}

void GraphExec::run_node(const Node& node, std::size_t index) {
  fibers_.run(fiber_of_[index], [&] {
    const Hidden hidden;
    acquire_edge(&started_);
    for (const std::size_t before : node.dependencies) acquire_edge(&ended_[before]);
    execute(*node.work);
    release_edge(&ended_[index]);
  });
}

void GraphExec::run(const Nodes& nodes) {
  const std::lock_guard lock(running_);
  acquire_edge(&launched_);
  fibers_.make(fiber_count_);
  release_edge(&started_);
  std::vector<std::size_t> waits_for(nodes->size());
  std::vector<std::vector<std::size_t>> followers(nodes->size());
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < nodes->size(); ++i) {
    waits_for[i] = (*nodes)[i].dependencies.size();
    for (const std::size_t before : (*nodes)[i].dependencies) followers[before].push_back(i);
    if (waits_for[i] == 0) ready.push_back(i);
  }
  while (!ready.empty()) {
    std::swap(ready[draw(ready.size())], ready.back());
    const std::size_t index = ready.back();
    ready.pop_back();
    run_node((*nodes)[index], index);
    for (const std::size_t follower : followers[index]) {
      if (--waits_for[follower] == 0) ready.push_back(follower);
    }
  }
  for (const char& ended : ended_) acquire_edge(&ended);
  release_edge(&launched_);
}

GraphExecs& graph_execs() {
  static auto& handles = *new GraphExecs;
  return handles;
}

}  // namespace fakecuda
