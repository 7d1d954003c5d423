#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "sluice/trace/recorded_run.hpp"

namespace sluice::trace {

/// The messages that each task of a run needs.
class TaskInputs {
 public:
  explicit TaskInputs(const RecordedRun& run) {
    for (const RecordedMessage& each : run.messages) {
      const Edge& edge = run.pipeline.edges()[each.id.edge];
      const bool activation = each.id.direction == Direction::Activation;
      const Task task{each.id.microbatch, activation ? edge.to : edge.from,
                      activation ? Pass::Forward : Pass::Backward};
      inputs_[{each.id.iteration, task}].push_back(&each);
    }
  }

  [[nodiscard]] const std::vector<const RecordedMessage*>& of(std::uint64_t iteration,
                                                              const Task& task) const {
    const auto found = inputs_.find({iteration, task});
    return found == inputs_.end() ? none_ : found->second;
  }

  /// The one that came last; null if there is none.
  [[nodiscard]] const RecordedMessage* last_of(std::uint64_t iteration, const Task& task) const {
    const RecordedMessage* last = nullptr;
    for (const RecordedMessage* each : of(iteration, task)) {
      if (last == nullptr || each->arrived > last->arrived) last = each;
    }
    return last;
  }

 private:
  std::map<std::pair<std::uint64_t, Task>, std::vector<const RecordedMessage*>> inputs_;
  std::vector<const RecordedMessage*> none_;
};

/// The tasks of one stage in one iteration, by start.
using StageTaskList = std::vector<const RecordedTask*>;

/// All of them, by iteration and stage.
[[nodiscard]] inline std::map<std::pair<std::uint64_t, StageId>, StageTaskList> by_stage(
    const RecordedRun& run) {
  std::map<std::pair<std::uint64_t, StageId>, StageTaskList> lists;
  for (const RecordedTask& each : run.tasks) lists[{each.iteration, each.stage}].push_back(&each);
  for (auto& [key, list] : lists) {
    std::stable_sort(list.begin(), list.end(), [](const RecordedTask* a, const RecordedTask* b) {
      return std::pair(a->start, a->end) < std::pair(b->start, b->end);
    });
  }
  return lists;
}

}  // namespace sluice::trace
