#include "sluice/schedule.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "sluice/error.hpp"
#include "sluice/stage_tasks.hpp"

namespace sluice {
namespace {

using Order = std::vector<Task>;

[[noreturn]] void refuse(StageId rank, std::size_t position, const std::string& reason) {
  throw ConfigError(
      "schedule", "rank " + std::to_string(rank) + ", position " + std::to_string(position) + ": " + reason);
}

/// Marks which (chunk, microbatch) pairs of a stage have a WeightGrad of their own.
std::vector<bool> separate_weight_grads(const StageTasks& tasks, std::span<const Task> order) {
  std::vector<bool> separate(tasks.size(), false);
  for (const Task& task : order) {
    if (task.pass == Pass::WeightGrad) separate[tasks.index(task.chunk, task.microbatch)] = true;
  }
  return separate;
}

/// Every task of the stage once, nothing else, each after the tasks of its own chunk it needs.
void check_stage(const Pipeline& pipeline, StageId stage, std::span<const Task> order) {
  const StageTasks tasks(pipeline, stage);
  std::vector<std::uint8_t> seen(tasks.size(), 0);
  for (std::size_t position = 0; position < order.size(); ++position) {
    const Task& task = order[position];
    if (!tasks.contains(task)) refuse(stage, position, to_string(task) + " is not a task of this rank");
    if (task.pass == Pass::WeightGrad && !pipeline.splittable(task.chunk)) {
      refuse(stage, position, to_string(task) + " is of a chunk that cannot be split");
    }
    std::uint8_t& passes = seen[tasks.index(task.chunk, task.microbatch)];
    const auto bit = static_cast<std::uint8_t>(1U << static_cast<unsigned>(task.pass));
    if ((passes & bit) != 0) refuse(stage, position, to_string(task) + " is a duplicate");
    if ((passes | (bit - 1U)) != passes)
      refuse(stage, position, to_string(task) + " comes before a pass it needs");
    passes = static_cast<std::uint8_t>(passes | bit);
  }
  for (std::uint32_t index = 0; index < seen.size(); ++index) {
    if ((seen[index] & 1U) == 0)
      refuse(stage, order.size(), to_string(tasks.task(Pass::Forward, index)) + " is missing");
    if ((seen[index] & 2U) == 0)
      refuse(stage, order.size(), to_string(tasks.task(Pass::Backward, index)) + " is missing");
  }
}

/// Runs the orders together, as far as they go, counting only dependencies.
class DryRun {
 public:
  DryRun(const Pipeline& pipeline, const std::vector<Order>& orders)
      : pipeline_(pipeline), orders_(orders), cursor_(orders.size(), 0) {
    const std::size_t pairs = std::size_t{pipeline.chunks()} * pipeline.microbatches();
    forward_done_.assign(pairs, false);
    backward_done_.assign(pairs, false);
  }

  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t stage = 0; stage < orders_.size(); ++stage) moved |= advance(stage);
    }
    for (std::size_t stage = 0; stage < orders_.size(); ++stage) {
      if (cursor_[stage] == orders_[stage].size()) continue;
      const Task& task = orders_[stage][cursor_[stage]];
      refuse(static_cast<StageId>(stage), cursor_[stage],
             to_string(task) + " waits for ever: the orders deadlock");
    }
  }

 private:
  bool advance(std::size_t stage) {
    const std::size_t start = cursor_[stage];
    const Order& order = orders_[stage];
    while (cursor_[stage] < order.size() && ready(order[cursor_[stage]])) {
      const Task& task = order[cursor_[stage]++];
      if (task.pass == Pass::Forward) forward_done_[pair(task.chunk, task.microbatch)] = true;
      if (task.pass == Pass::Backward) backward_done_[pair(task.chunk, task.microbatch)] = true;
    }
    return cursor_[stage] != start;
  }

  [[nodiscard]] bool ready(const Task& task) const {
    if (task.pass == Pass::WeightGrad) return true;
    const bool forward = task.pass == Pass::Forward;
    const auto edges = forward ? pipeline_.in_edges(task.chunk) : pipeline_.out_edges(task.chunk);
    return std::all_of(edges.begin(), edges.end(), [&](EdgeId id) {
      const Edge& edge = pipeline_.edges()[id];
      return forward ? forward_done_[pair(edge.from, task.microbatch)]
                     : backward_done_[pair(edge.to, task.microbatch)];
    });
  }

  [[nodiscard]] std::size_t pair(Chunk chunk, Microbatch microbatch) const {
    return std::size_t{chunk} * pipeline_.microbatches() + microbatch;
  }

  const Pipeline& pipeline_;
  const std::vector<Order>& orders_;
  std::vector<std::size_t> cursor_;
  std::vector<bool> forward_done_;
  std::vector<bool> backward_done_;
};

/// Rewrites one stage's order so that each chunk's weight gradients run in microbatch order.
class Reorder {
 public:
  Reorder(const Pipeline& pipeline, StageId stage, const Order& order)
      : pipeline_(pipeline),
        tasks_(pipeline, stage),
        order_(order),
        separate_(separate_weight_grads(tasks_, order)),
        next_(tasks_.chunks(), 0),
        waiting_(tasks_.chunks()) {}

  Order run() {
    for (std::size_t position = 0; position < order_.size(); ++position) {
      const Task& task = order_[position];
      if (task.pass == Pass::Forward) {
        result_.push_back(task);
      } else if (task.pass == Pass::Backward) {
        backward(task, position);
      } else {
        accumulate(task);
      }
    }
    return std::move(result_);
  }

 private:
  void backward(const Task& task, std::size_t position) {
    result_.push_back(task);
    if (separate_[tasks_.index(task.chunk, task.microbatch)]) return;
    const std::uint32_t at = tasks_.position(task.chunk);
    if (task.microbatch == next_[at]) {
      ++next_[at];
      flush(at);
      return;
    }
    if (!pipeline_.splittable(task.chunk)) {
      refuse(tasks_.stage(), position,
             to_string(task) + " accumulates out of microbatch order and cannot be split");
    }
    waiting_[at].insert(task.microbatch);
  }

  void accumulate(const Task& task) {
    const std::uint32_t at = tasks_.position(task.chunk);
    waiting_[at].insert(task.microbatch);
    flush(at);
  }

  void flush(std::uint32_t at) {
    for (auto it = waiting_[at].begin(); it != waiting_[at].end() && *it == next_[at];
         it = waiting_[at].erase(it)) {
      result_.push_back({next_[at]++, tasks_.chunk_at(at), Pass::WeightGrad});
    }
  }

  const Pipeline& pipeline_;
  StageTasks tasks_;
  const Order& order_;
  std::vector<bool> separate_;
  std::vector<Microbatch> next_;
  std::vector<std::set<Microbatch>> waiting_;
  Order result_;
};

}  // namespace

Schedule::Schedule(std::string name, std::vector<std::vector<Task>> orders)
    : name_(std::move(name)), orders_(std::move(orders)) {}

void Schedule::validate(const Pipeline& pipeline) const {
  if (stages() != pipeline.stages()) {
    throw ConfigError("schedule", "has orders for " + std::to_string(stages()) + " ranks, the pipeline has " +
                                      std::to_string(pipeline.stages()));
  }
  for (StageId stage = 0; stage < stages(); ++stage) check_stage(pipeline, stage, orders_[stage]);
  DryRun(pipeline, orders_).run();
}

Schedule Schedule::with_ordered_accumulation(const Pipeline& pipeline) const {
  std::vector<Order> orders;
  for (StageId stage = 0; stage < stages(); ++stage)
    orders.push_back(Reorder(pipeline, stage, orders_[stage]).run());
  return {name_, std::move(orders)};
}

std::uint32_t Schedule::peak_in_flight(const Pipeline& pipeline, StageId stage) const {
  const StageTasks tasks(pipeline, stage);
  const std::vector<bool> separate = separate_weight_grads(tasks, orders_[stage]);
  std::uint32_t held = 0;
  std::uint32_t peak = 0;
  for (const Task& task : orders_[stage]) {
    const bool last = task.pass == Pass::WeightGrad ||
                      (task.pass == Pass::Backward && !separate[tasks.index(task.chunk, task.microbatch)]);
    if (task.pass == Pass::Forward) peak = std::max(peak, ++held);
    if (last) --held;
  }
  return peak;
}

}  // namespace sluice
