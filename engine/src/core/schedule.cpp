#include "sluice/schedule.hpp"

#include <algorithm>
#include <utility>

#include "sluice/error.hpp"
#include "sluice/stage_tasks.hpp"

namespace sluice {
namespace {

using Order = std::vector<Task>;

/// Marks which (chunk, microbatch) pairs of a stage have a WeightGrad of their own.
std::vector<bool> separate_weight_grads(const StageTasks& tasks, std::span<const Task> order) {
  std::vector<bool> separate(tasks.size(), false);
  for (const Task& task : order) {
    if (task.pass == Pass::WeightGrad) separate[tasks.index(task.chunk, task.microbatch)] = true;
  }
  return separate;
}

/// Rewrites one stage's order so that each chunk's weight gradients run in microbatch order.
class Reorder {
 public:
  Reorder(const Pipeline& pipeline, StageId stage, const Order& order)
      : pipeline_(pipeline),
        tasks_(pipeline, stage),
        order_(order),
        separate_(separate_weight_grads(tasks_, order)),
        next_(tasks_.chunks(), 0),
        waiting_(tasks_.size(), false) {}

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
      throw ConfigError("schedule",
                        to_string(ScheduleFault{
                            tasks_.stage(), position,
                            to_string(task) + " accumulates out of microbatch order and cannot be split"}));
    }
    waiting_[tasks_.index(task.chunk, task.microbatch)] = true;
  }

  void accumulate(const Task& task) {
    waiting_[tasks_.index(task.chunk, task.microbatch)] = true;
    flush(tasks_.position(task.chunk));
  }

  void flush(std::uint32_t at) {
    const Chunk chunk = tasks_.chunk_at(at);
    while (next_[at] < tasks_.microbatches() && waiting_[tasks_.index(chunk, next_[at])])
      result_.push_back({next_[at]++, chunk, Pass::WeightGrad});
  }

  const Pipeline& pipeline_;
  StageTasks tasks_;
  const Order& order_;
  std::vector<bool> separate_;
  std::vector<Microbatch> next_;
  /// Pairs whose accumulation is due as soon as it is in turn.
  std::vector<bool> waiting_;
  Order result_;
};

}  // namespace

Schedule::Schedule(std::string name, std::vector<std::vector<Task>> orders)
    : name_(std::move(name)), orders_(std::move(orders)) {}

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
