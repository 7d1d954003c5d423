#include "sluice/trace/run_diff.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "sluice/error.hpp"
#include "task_inputs.hpp"

namespace sluice::trace {
namespace {

using Key = std::pair<std::uint64_t, Task>;

void check_same(const Pipeline& a, const Pipeline& b) {
  const auto refuse = [](const std::string& what) {
    throw ConfigError("pipeline", "the two runs have different " + what);
  };
  if (a.stages() != b.stages()) refuse("numbers of stages");
  if (a.chunks() != b.chunks()) refuse("numbers of chunks");
  if (a.microbatches() != b.microbatches()) refuse("numbers of microbatches");
  if (!std::equal(a.edges().begin(), a.edges().end(), b.edges().begin(), b.edges().end())) refuse("edges");
  for (std::size_t chunk = 0; chunk < a.chunks(); ++chunk) {
    if (a.stage_of(static_cast<Chunk>(chunk)) != b.stage_of(static_cast<Chunk>(chunk)))
      refuse("places of chunk " + std::to_string(chunk));
  }
}

/// The run with these iterations only.
RecordedRun restricted(const RecordedRun& run, const std::set<std::uint64_t>& iterations) {
  RecordedRun part = run;
  const auto foreign = [&](std::uint64_t index) { return !iterations.contains(index); };
  std::erase_if(part.iterations,
                [&](const RecordedIteration& each) { return foreign(each.iteration.index); });
  std::erase_if(part.tasks, [&](const RecordedTask& each) { return foreign(each.iteration); });
  std::erase_if(part.messages, [&](const RecordedMessage& each) { return foreign(each.id.iteration); });
  std::erase_if(part.agreements, [&](const RecordedAgreement& each) { return foreign(each.iteration); });
  return part;
}

struct Measured {
  StageId stage = 0;
  bool whole = false;
  Duration took{0};
  Duration waited{0};
};

std::map<Key, Measured> measure(const RecordedRun& run) {
  std::map<std::uint64_t, Time> starts;
  for (const RecordedIteration& each : run.iterations) starts[each.iteration.index] = each.start;
  std::map<Key, Measured> all;
  for (const auto& [key, tasks] : by_stage(run)) {
    Time free = starts[key.first];
    for (const RecordedTask* each : tasks) {
      const Duration waited = std::max(Duration{0}, each->start - free);
      all[{each->iteration, each->task}] = {each->stage, each->whole, each->duration(), waited};
      free = std::max(free, each->end);
    }
  }
  return all;
}

/// Both parts of a split backward, as one.
Measured joined(const std::map<Key, Measured>& all, const Key& backward) {
  Measured both = all.at(backward);
  const auto tail =
      all.find({backward.first, {backward.second.microbatch, backward.second.chunk, Pass::WeightGrad}});
  if (tail == all.end()) return both;
  both.took += tail->second.took;
  both.waited += tail->second.waited;
  return both;
}

std::vector<TaskDifference> compare_tasks(const RecordedRun& a, const RecordedRun& b) {
  const std::map<Key, Measured> all_a = measure(a);
  const std::map<Key, Measured> all_b = measure(b);
  std::vector<TaskDifference> differences;
  for (const auto& [key, at_a] : all_a) {
    const auto found = all_b.find(key);
    if (found == all_b.end()) continue;
    const bool unlike = key.second.pass == Pass::Backward && at_a.whole != found->second.whole;
    const Measured in_a = unlike ? joined(all_a, key) : at_a;
    const Measured in_b = unlike ? joined(all_b, key) : found->second;
    differences.push_back(
        {key.second, key.first, at_a.stage, in_a.took, in_b.took, in_a.waited, in_b.waited});
  }
  return differences;
}

Duration total(const RecordedRun& run) {
  Duration sum{0};
  for (const RecordedIteration& each : run.iterations) sum += each.end - each.start;
  return sum;
}

}  // namespace

RunDiff diff_runs(const RecordedRun& a, const RecordedRun& b, std::size_t most) {
  check_same(a.pipeline, b.pipeline);
  std::map<std::uint64_t, IterationKind> of_a;
  for (const RecordedIteration& each : a.iterations) of_a[each.iteration.index] = each.iteration.kind;
  std::set<std::uint64_t> common;
  for (const RecordedIteration& each : b.iterations) {
    const auto found = of_a.find(each.iteration.index);
    if (found != of_a.end() && found->second == each.iteration.kind) common.insert(each.iteration.index);
  }
  if (common.empty()) throw ConfigError("iterations", "the two runs have none in common");
  const RecordedRun part_a = restricted(a, common);
  const RecordedRun part_b = restricted(b, common);
  RunDiff diff{
      {common.begin(), common.end()}, total(part_a), total(part_b), stage_times(part_a), stage_times(part_b),
      compare_tasks(part_a, part_b)};
  const auto more = [](const TaskDifference& x, const TaskDifference& y) {
    return std::pair(std::chrono::abs(y.difference()), x.task) <
           std::pair(std::chrono::abs(x.difference()), y.task);
  };
  const std::size_t listed = std::min(most, diff.tasks.size());
  std::partial_sort(diff.tasks.begin(), diff.tasks.begin() + static_cast<std::ptrdiff_t>(listed),
                    diff.tasks.end(), more);
  diff.tasks.resize(listed);
  return diff;
}

}  // namespace sluice::trace
