#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "chrome_events.hpp"
#include "sluice/trace/recorded_export.hpp"

#include "sluice/seconds.hpp"

namespace sluice::trace {
namespace {

using nlohmann::json;

double microseconds(Time time) { return seconds(time) * kMicroseconds; }

/// Tasks by what names them, to tie the ends of an arrow to.
class TaskIndex {
 public:
  explicit TaskIndex(const RecordedRun& run) {
    for (const RecordedTask& each : run.tasks) tasks_[{each.iteration, each.task}] = &each;
  }
  [[nodiscard]] const RecordedTask* find(std::uint64_t iteration, const Task& task) const {
    const auto found = tasks_.find({iteration, task});
    return found == tasks_.end() ? nullptr : found->second;
  }

 private:
  std::map<std::pair<std::uint64_t, Task>, const RecordedTask*> tasks_;
};

json arrow_end(const char* phase, std::size_t pid, const RecordedTask& task, Time at, const std::string& id,
               const std::string& name) {
  return {{"ph", phase}, {"cat", "message"},  {"name", name},           {"id", id},
          {"pid", pid},  {"tid", task.stage}, {"ts", microseconds(at)}, {"bp", "e"}};
}

/// From the end of the sending task to the start of the one that needs it.
void append_messages(json& events, const RecordedRun& run, std::size_t pid) {
  const TaskIndex tasks(run);
  for (std::size_t i = 0; i < run.messages.size(); ++i) {
    const RecordedMessage& each = run.messages[i];
    const Edge& edge = run.pipeline.edges()[each.id.edge];
    const bool activation = each.id.direction == Direction::Activation;
    const Pass pass = activation ? Pass::Forward : Pass::Backward;
    const RecordedTask* from =
        tasks.find(each.id.iteration, {each.id.microbatch, activation ? edge.from : edge.to, pass});
    const RecordedTask* to =
        tasks.find(each.id.iteration, {each.id.microbatch, activation ? edge.to : edge.from, pass});
    if (from == nullptr || to == nullptr) continue;
    const std::string id = std::to_string(pid) + "." + std::to_string(i);
    const std::string name = edge_name(run.pipeline, each.id.edge, each.id.direction);
    // An arrow hangs on the task that its time lies in.
    events.push_back(arrow_end("s", pid, *from, std::max(from->start, from->end - Duration{1}), id, name));
    json end = arrow_end("f", pid, *to, to->start, id, name);
    end["args"] = {{"sent_us", microseconds(each.sent)},
                   {"offered_us", microseconds(each.offered)},
                   {"accepted_us", microseconds(each.accepted)},
                   {"arrived_us", microseconds(each.arrived)}};
    events.push_back(std::move(end));
  }
}

void append_in_flight(json& events, const RecordedRun& run, std::size_t pid) {
  std::set<std::uint64_t> forward_only;
  for (const RecordedIteration& each : run.iterations) {
    if (each.iteration.kind == IterationKind::ForwardOnly) forward_only.insert(each.iteration.index);
  }
  std::map<StageId, std::vector<std::pair<Time, int>>> changes;
  for (const RecordedTask& each : run.tasks) {
    if (each.task.pass == Pass::Forward) changes[each.stage].emplace_back(each.start, 1);
    if (each.whole || each.task.pass == Pass::WeightGrad || forward_only.contains(each.iteration))
      changes[each.stage].emplace_back(each.end, -1);
  }
  for (auto& [stage, of_stage] : changes) {
    std::sort(of_stage.begin(), of_stage.end());
    std::int64_t in_flight = 0;
    for (const auto& [at, change] : of_stage) {
      in_flight += change;
      events.push_back({{"ph", "C"},
                        {"name", "in flight, stage " + std::to_string(stage)},
                        {"pid", pid},
                        {"ts", microseconds(at)},
                        {"args", {{"microbatches", in_flight}}}});
    }
  }
}

}  // namespace

MethodTimeline timeline_of(const RecordedRun& run) {
  MethodTimeline timeline{run.method, run.pipeline.stages(), {}};
  for (const RecordedTask& each : run.tasks) {
    timeline.spans.push_back(
        {each.task, each.iteration, each.stage, each.whole, seconds(each.start), seconds(each.end)});
  }
  return timeline;
}

std::string chrome_trace(std::span<const RecordedRun> runs) {
  json events = json::array();
  for (std::size_t pid = 0; pid < runs.size(); ++pid) {
    append_tasks(events, timeline_of(runs[pid]), pid);
    append_messages(events, runs[pid], pid);
    append_in_flight(events, runs[pid], pid);
  }
  return document_of(std::move(events));
}

}  // namespace sluice::trace
