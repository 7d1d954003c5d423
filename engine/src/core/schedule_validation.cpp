#include <algorithm>
#include <optional>

#include "sluice/error.hpp"
#include "sluice/schedule.hpp"
#include "sluice/stage_tasks.hpp"

namespace sluice {
namespace {

using Order = std::vector<Task>;

/// Why a task cannot stand where it does, or nothing.
/// @param passes of the same pair that came before, one bit each
std::string misplaced(const Pipeline& pipeline, const Task& task, std::uint8_t passes) {
  if (task.pass == Pass::WeightGrad && !pipeline.splittable(task.chunk))
    return " is of a chunk that cannot be split";
  const auto bit = static_cast<std::uint8_t>(1U << static_cast<unsigned>(task.pass));
  if ((passes & bit) != 0) return " is a duplicate";
  if ((passes | (bit - 1U)) != passes) return " comes before a pass it needs";
  return {};
}

/// Every task of the stage once, nothing else, each after the tasks of its own chunk it needs.
std::optional<ScheduleFault> fault_of_stage(const Pipeline& pipeline, StageId stage, const Order& order) {
  const StageTasks tasks(pipeline, stage);
  std::vector<std::uint8_t> seen(tasks.size(), 0);
  for (std::size_t position = 0; position < order.size(); ++position) {
    const Task& task = order[position];
    if (!tasks.contains(task))
      return ScheduleFault{stage, position, to_string(task) + " is not a task of this rank"};
    std::uint8_t& passes = seen[tasks.index(task.chunk, task.microbatch)];
    const std::string reason = misplaced(pipeline, task, passes);
    if (!reason.empty()) return ScheduleFault{stage, position, to_string(task) + reason};
    passes = static_cast<std::uint8_t>(passes | 1U << static_cast<unsigned>(task.pass));
  }
  for (std::uint32_t index = 0; index < seen.size(); ++index) {
    for (const Pass pass : {Pass::Forward, Pass::Backward}) {
      if ((seen[index] & 1U << static_cast<unsigned>(pass)) == 0)
        return ScheduleFault{stage, order.size(), to_string(tasks.task(pass, index)) + " is missing"};
    }
  }
  return std::nullopt;
}

/// Runs the orders together, as far as they go, counting only dependencies. Linear in the tasks: a
/// stage is looked at again only when a task that one of its own needs has run.
class DryRun {
 public:
  DryRun(const Pipeline& pipeline, const std::vector<Order>& orders)
      : pipeline_(pipeline), orders_(orders), cursor_(orders.size(), 0), queued_(orders.size(), true) {
    const std::size_t pairs = std::size_t{pipeline.chunks()} * pipeline.microbatches();
    forward_done_.assign(pairs, false);
    backward_done_.assign(pairs, false);
  }

  std::vector<ScheduleFault> run() {
    for (std::size_t stage = orders_.size(); stage-- > 0;) queue_.push_back(static_cast<StageId>(stage));
    while (!queue_.empty()) {
      const StageId stage = queue_.back();
      queue_.pop_back();
      queued_[stage] = false;
      advance(stage);
    }
    std::vector<ScheduleFault> faults;
    for (std::size_t stage = 0; stage < orders_.size(); ++stage) {
      if (cursor_[stage] != orders_[stage].size()) faults.push_back(stuck(static_cast<StageId>(stage)));
    }
    return faults;
  }

 private:
  void advance(StageId stage) {
    const Order& order = orders_[stage];
    while (cursor_[stage] < order.size() && !awaited(order[cursor_[stage]])) {
      const Task& task = order[cursor_[stage]++];
      if (task.pass == Pass::Forward) {
        forward_done_[pair(task.chunk, task.microbatch)] = true;
        for (const EdgeId id : pipeline_.out_edges(task.chunk)) enqueue(pipeline_.edges()[id].to);
      } else if (task.pass == Pass::Backward) {
        backward_done_[pair(task.chunk, task.microbatch)] = true;
        for (const EdgeId id : pipeline_.in_edges(task.chunk)) enqueue(pipeline_.edges()[id].from);
      }
    }
  }

  void enqueue(Chunk chunk) {
    const StageId stage = pipeline_.stage_of(chunk);
    if (queued_[stage]) return;
    queued_[stage] = true;
    queue_.push_back(stage);
  }

  /// A task that has to run first and has not.
  [[nodiscard]] std::optional<Task> awaited(const Task& task) const {
    if (task.pass == Pass::WeightGrad) return std::nullopt;
    const bool forward = task.pass == Pass::Forward;
    for (const EdgeId id : forward ? pipeline_.in_edges(task.chunk) : pipeline_.out_edges(task.chunk)) {
      const Chunk chunk = forward ? pipeline_.edges()[id].from : pipeline_.edges()[id].to;
      if (!(forward ? forward_done_ : backward_done_)[pair(chunk, task.microbatch)])
        return Task{task.microbatch, chunk, task.pass};
    }
    return std::nullopt;
  }

  [[nodiscard]] ScheduleFault stuck(StageId stage) const {
    const Task& task = orders_[stage][cursor_[stage]];
    const Task needed = *awaited(task);
    const StageId rank = pipeline_.stage_of(needed.chunk);
    const auto at = std::find(orders_[rank].begin(), orders_[rank].end(), needed);
    return {stage, cursor_[stage],
            to_string(task) + " waits for ever for " + to_string(needed) + " at rank " +
                std::to_string(rank) + ", position " + std::to_string(at - orders_[rank].begin()) +
                ": the orders deadlock"};
  }

  [[nodiscard]] std::size_t pair(Chunk chunk, Microbatch microbatch) const {
    return std::size_t{chunk} * pipeline_.microbatches() + microbatch;
  }

  const Pipeline& pipeline_;
  const std::vector<Order>& orders_;
  std::vector<std::size_t> cursor_;
  std::vector<bool> queued_;
  std::vector<StageId> queue_;
  std::vector<bool> forward_done_;
  std::vector<bool> backward_done_;
};

}  // namespace

std::string to_string(const ScheduleFault& fault) {
  return "rank " + std::to_string(fault.rank) + ", position " + std::to_string(fault.position) + ": " +
         fault.reason;
}

std::vector<ScheduleFault> Schedule::faults(const Pipeline& pipeline) const {
  if (stages() != pipeline.stages()) {
    throw ConfigError("schedule", "has orders for " + std::to_string(stages()) + " ranks, the pipeline has " +
                                      std::to_string(pipeline.stages()));
  }
  std::vector<ScheduleFault> found;
  for (std::size_t stage = 0; stage < orders_.size(); ++stage) {
    std::optional<ScheduleFault> fault =
        fault_of_stage(pipeline, static_cast<StageId>(stage), orders_[stage]);
    if (fault) found.push_back(std::move(*fault));
  }
  return found.empty() ? DryRun(pipeline, orders_).run() : found;
}

void Schedule::validate(const Pipeline& pipeline) const {
  const std::vector<ScheduleFault> found = faults(pipeline);
  if (!found.empty()) throw ConfigError("schedule", to_string(found.front()));
}

}  // namespace sluice
