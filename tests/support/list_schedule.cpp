#include "list_schedule.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <vector>

namespace sluice::test {
namespace {

class ListScheduler {
 public:
  ListScheduler(const Pipeline& pipeline, const std::function<Duration(const MessageId&)>& message_delay)
      : pipeline_(pipeline), message_delay_(message_delay) {}

  /// When the last input of the task is there; nothing while that is not known.
  [[nodiscard]] std::optional<Time> inputs_at(const Task& task) const {
    const bool forward = task.pass == Pass::Forward;
    std::optional<Time> at = forward ? Time{0} : end_of({task.microbatch, task.chunk, Pass::Forward});
    if (task.pass == Pass::WeightGrad) return end_of({task.microbatch, task.chunk, Pass::Backward});
    for (const EdgeId id : forward ? pipeline_.in_edges(task.chunk) : pipeline_.out_edges(task.chunk)) {
      const Edge& edge = pipeline_.edges()[id];
      const std::optional<Time> end = end_of({task.microbatch, forward ? edge.from : edge.to, task.pass});
      if (!at || !end) return std::nullopt;
      const bool local = pipeline_.stage_of(edge.from) == pipeline_.stage_of(edge.to);
      const Direction direction = forward ? Direction::Activation : Direction::Gradient;
      at = std::max(*at, *end + (local ? Duration{0} : message_delay_({0, task.microbatch, id, direction})));
    }
    return at;
  }

  std::map<Task, Interval> intervals;

 private:
  [[nodiscard]] std::optional<Time> end_of(const Task& task) const {
    const auto at = intervals.find(task);
    return at == intervals.end() ? std::nullopt : std::optional(at->second.ended);
  }

  const Pipeline& pipeline_;
  const std::function<Duration(const MessageId&)>& message_delay_;
};

}  // namespace

std::map<Task, Interval> list_schedule(const Pipeline& pipeline, const Schedule& schedule,
                                       const std::function<Duration(const Task&)>& task_time,
                                       const std::function<Duration(const MessageId&)>& message_delay) {
  ListScheduler scheduler(pipeline, message_delay);
  std::vector<std::size_t> cursor(schedule.stages(), 0);
  std::vector<Time> free_at(schedule.stages(), Time{0});
  std::size_t tasks = 0;
  for (StageId stage = 0; stage < schedule.stages(); ++stage) tasks += schedule.order(stage).size();
  while (scheduler.intervals.size() < tasks) {
    const std::size_t before = scheduler.intervals.size();
    for (StageId stage = 0; stage < schedule.stages(); ++stage) {
      const auto order = schedule.order(stage);
      while (cursor[stage] < order.size()) {
        const Task& task = order[cursor[stage]];
        const std::optional<Time> ready = scheduler.inputs_at(task);
        if (!ready) break;
        const Time started = std::max(free_at[stage], *ready);
        free_at[stage] = started + task_time(task);
        scheduler.intervals[task] = {started, free_at[stage]};
        ++cursor[stage];
      }
    }
    if (scheduler.intervals.size() == before) throw std::logic_error("the orders deadlock");
  }
  return scheduler.intervals;
}

}  // namespace sluice::test
