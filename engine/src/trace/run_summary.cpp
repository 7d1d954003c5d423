#include "sluice/trace/run_summary.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "sluice/seconds.hpp"
#include "task_inputs.hpp"

namespace sluice::trace {
namespace {

/// When each task ended, to tell when the messages it sent could have left.
std::map<std::pair<std::uint64_t, Task>, Time> task_ends(const RecordedRun& run) {
  std::map<std::pair<std::uint64_t, Task>, Time> ends;
  for (const RecordedTask& each : run.tasks) ends[{each.iteration, each.task}] = each.end;
  return ends;
}

/// When the messages of the tasks came, or could have.
class Comings {
 public:
  Comings(const RecordedRun& run, const MessageTime& message_time)
      : run_(run), message_time_(message_time), inputs_(run), ends_(task_ends(run)) {}

  /// Of the last message; nothing for a task without any.
  [[nodiscard]] std::optional<Time> last(const RecordedTask& task) const {
    std::optional<Time> last;
    for (const RecordedMessage* each : inputs_.of(task.iteration, task.task)) {
      const Time came = coming(*each);
      if (!last || came > *last) last = came;
    }
    return last;
  }

 private:
  [[nodiscard]] Time coming(const RecordedMessage& message) const {
    const std::optional<Duration> taken = message_time_ ? message_time_(message.id) : std::nullopt;
    if (!taken) return message.arrived;
    const Edge& edge = run_.pipeline.edges()[message.id.edge];
    const bool activation = message.id.direction == Direction::Activation;
    const Task sender{message.id.microbatch, activation ? edge.from : edge.to,
                      activation ? Pass::Forward : Pass::Backward};
    const auto end = ends_.find({message.id.iteration, sender});
    // One that had to wait for its slot did not come before that.
    const bool held = message.accepted > message.offered;
    return end == ends_.end() || held ? message.arrived : end->second + *taken;
  }

  const RecordedRun& run_;
  const MessageTime& message_time_;
  TaskInputs inputs_;
  std::map<std::pair<std::uint64_t, Task>, Time> ends_;
};

}  // namespace

Distribution Distribution::of(std::vector<Duration> durations) {
  if (durations.empty()) return {};
  std::sort(durations.begin(), durations.end());
  double sum = 0;
  for (const Duration each : durations) sum += seconds(each);
  const auto quantile = [&durations](double q) {
    const double rank = std::ceil(q * static_cast<double>(durations.size()));
    return seconds(durations[static_cast<std::size_t>(std::max(rank, 1.0)) - 1]);
  };
  return {durations.size(), sum / static_cast<double>(durations.size()), quantile(0.5), quantile(0.95),
          seconds(durations.back())};
}

StartOverhead start_overhead(const RecordedRun& run, const MessageTime& message_time) {
  const Comings comings(run, message_time);
  std::vector<Duration> by_stage_bound;
  std::vector<Duration> by_message_bound;
  for (const auto& [key, tasks] : by_stage(run)) {
    std::optional<Time> free;
    for (const RecordedTask* task : tasks) {
      const std::optional<Time> came = comings.last(*task);
      const bool first = !free.has_value();
      const Time before = free.value_or(Time{0});
      free = std::max(before, task->end);
      // Nothing tells what the forward of a source waited for.
      if (!came && (first || task->task.pass == Pass::Forward)) continue;
      const bool message_bound = first || (came && *came > before);
      const Time could = message_bound ? *came : before;
      if (task->start >= could)
        (message_bound ? by_message_bound : by_stage_bound).push_back(task->start - could);
    }
  }
  return {Distribution::of(std::move(by_stage_bound)), Distribution::of(std::move(by_message_bound))};
}

std::vector<EdgeSummary> edge_summaries(const RecordedRun& run) {
  std::map<std::pair<EdgeId, Direction>, std::pair<std::vector<Duration>, std::vector<Duration>>> times;
  for (const RecordedMessage& each : run.messages) {
    if (sender(run.pipeline, each.id) == receiver(run.pipeline, each.id)) continue;
    auto& [taken, held] = times[{each.id.edge, each.id.direction}];
    taken.push_back((each.offered - each.sent) + (each.arrived - each.accepted));
    held.push_back(each.accepted - each.offered);
  }
  std::vector<EdgeSummary> summaries;
  summaries.reserve(times.size());
  for (auto& [key, durations] : times) {
    summaries.push_back({key.first, key.second, Distribution::of(std::move(durations.first)),
                         Distribution::of(std::move(durations.second))});
  }
  return summaries;
}

Distribution noticing(const RecordedRun& run) {
  std::vector<Duration> late;
  for (const RecordedTask& each : run.tasks) late.push_back(each.noticed - each.end);
  return Distribution::of(std::move(late));
}

std::vector<std::uint64_t> reordered_tasks(const RecordedRun& run) {
  std::vector<std::uint64_t> counts(run.pipeline.stages(), 0);
  for (const auto& [key, tasks] : by_stage(run)) {
    std::map<std::pair<Chunk, Pass>, Microbatch> highest;
    for (const RecordedTask* each : tasks) {
      Microbatch& most =
          highest.try_emplace({each->task.chunk, each->task.pass}, each->task.microbatch).first->second;
      if (each->task.microbatch < most) ++counts[key.second];
      most = std::max(most, each->task.microbatch);
    }
  }
  return counts;
}

}  // namespace sluice::trace
