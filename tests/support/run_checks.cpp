#include "run_checks.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace sluice::test {
namespace {

using Key = std::pair<std::uint64_t, Task>;
using Executions = std::map<Key, Execution>;

IterationKind kind_of(const Scenario& scenario, std::uint64_t index) {
  return std::find_if(scenario.iterations.begin(), scenario.iterations.end(),
                      [&](const Iteration& each) { return each.index == index; })
      ->kind;
}

std::string name(const Key& key) {
  return "iteration " + std::to_string(key.first) + ", " + to_string(key.second);
}

/// Which passes of a pair have run.
std::string fault_in_counts(const Scenario& scenario, const Executions& executions) {
  const Pipeline& pipeline = scenario.pipeline;
  std::size_t expected = 0;
  for (const Iteration& iteration : scenario.iterations) {
    for (std::uint32_t chunk = 0; chunk < pipeline.chunks(); ++chunk) {
      for (Microbatch m = 0; m < pipeline.microbatches(); ++m) {
        const Task forward{m, static_cast<Chunk>(chunk), Pass::Forward};
        ++expected;
        if (!executions.contains({iteration.index, forward}))
          return name({iteration.index, forward}) + " never ran";
        if (iteration.kind == IterationKind::ForwardOnly) continue;
        const Task backward{m, forward.chunk, Pass::Backward};
        const auto at = executions.find({iteration.index, backward});
        if (at == executions.end()) return name({iteration.index, backward}) + " never ran";
        const bool whole = at->second.whole;
        expected += whole ? 1 : 2;
        if (whole && pipeline.split_backward()) return name(at->first) + " was whole in a split pipeline";
        if (!whole && !pipeline.splittable(forward.chunk))
          return name(at->first) + " was split but cannot be";
        if (executions.contains({iteration.index, {m, forward.chunk, Pass::WeightGrad}}) == whole) {
          return name(at->first) + " did not come with exactly one accumulation";
        }
      }
    }
  }
  return executions.size() == expected ? "" : "tasks ran that do not exist";
}

/// Every task starts after what it needs has ended and, from another stage, has come over.
std::string fault_in_dependencies(const Scenario& scenario, const Executions& executions) {
  const Pipeline& pipeline = scenario.pipeline;
  for (const auto& [key, execution] : executions) {
    const Task& task = key.second;
    const auto after = [&](const Task& input, Duration delay) {
      return execution.started >= executions.at({key.first, input}).ended + delay;
    };
    const auto edges =
        task.pass == Pass::Forward ? pipeline.in_edges(task.chunk) : pipeline.out_edges(task.chunk);
    if (task.pass == Pass::WeightGrad && !after({task.microbatch, task.chunk, Pass::Backward}, {})) {
      return name(key) + " started before its backward ended";
    }
    if (task.pass == Pass::WeightGrad) continue;
    if (task.pass == Pass::Backward && !after({task.microbatch, task.chunk, Pass::Forward}, {})) {
      return name(key) + " started before its forward ended";
    }
    for (const EdgeId id : edges) {
      const Edge& edge = pipeline.edges()[id];
      const bool forward = task.pass == Pass::Forward;
      const Direction direction = forward ? Direction::Activation : Direction::Gradient;
      const bool local = pipeline.stage_of(edge.from) == pipeline.stage_of(edge.to);
      const Duration delay =
          local ? Duration{0} : message_delay(scenario, {key.first, task.microbatch, id, direction});
      if (!after({task.microbatch, forward ? edge.from : edge.to, task.pass}, delay)) {
        return name(key) + " started before edge " + std::to_string(id) + " had delivered";
      }
    }
  }
  return {};
}

std::string fault_in_lanes(const Scenario& scenario, const Record& record) {
  std::map<std::pair<StageId, Lane>, Time> busy_until;
  for (const Execution& execution : record.executions) {
    const Lane lane = scenario.lanes[static_cast<std::size_t>(execution.task.pass)];
    Time& until = busy_until[{execution.stage, lane}];
    if (execution.started < until)
      return name({execution.iteration, execution.task}) + " overlaps another of its lane";
    until = execution.ended;
  }
  return {};
}

/// A chunk's accumulations come in microbatch order and never overlap.
std::string fault_in_accumulation(const Scenario& scenario, const Executions& executions) {
  if (!scenario.rules.ordered_accumulation) return {};
  std::map<std::pair<std::uint64_t, Chunk>, std::pair<Microbatch, Time>> last;
  for (const auto& [key, execution] : executions) {  // by iteration, then microbatch
    if (!execution.whole && key.second.pass != Pass::WeightGrad) continue;
    const auto [at, first] =
        last.try_emplace({key.first, key.second.chunk}, key.second.microbatch, execution.ended);
    if (first) continue;
    if (execution.started < at->second.second) return name(key) + " accumulated out of turn";
    at->second = {key.second.microbatch, execution.ended};
  }
  return {};
}

/// D from start of the forward to end of the last pass, or under the published rules of the backward.
std::string fault_in_bound(const Scenario& scenario, const Record& record) {
  std::vector<std::tuple<StageId, Time, int>> steps;
  for (const Execution& execution : record.executions) {
    const bool forward = execution.task.pass == Pass::Forward;
    const bool last = forward ? kind_of(scenario, execution.iteration) == IterationKind::ForwardOnly
                      : scenario.rules.hold_until_weight_grad
                          ? execution.whole || execution.task.pass == Pass::WeightGrad
                          : execution.task.pass == Pass::Backward;
    if (forward) steps.emplace_back(execution.stage, execution.started, 1);
    if (last) steps.emplace_back(execution.stage, execution.ended, -1);
  }
  std::sort(steps.begin(), steps.end());  // at one time, ends before starts
  std::map<StageId, int> in_flight;
  for (const auto& [stage, time, step] : steps) {
    const std::uint32_t chunks = chunks_on(scenario.pipeline, stage);
    const std::uint32_t bound = scenario.limits[stage] + (chunks > 1 ? chunks : 0);
    if ((in_flight[stage] += step) > static_cast<int>(bound))
      return "D passes its bound on stage " + std::to_string(stage);
  }
  return {};
}

/// While several chunks are at the limit, only the next task of the lowest unfinished microbatch runs.
std::string fault_in_focus(const Scenario& scenario, StageId stage, const std::vector<Decision>& log) {
  const auto chunks = scenario.pipeline.chunks_of(stage);
  std::vector<bool> launched;
  std::uint64_t iteration = ~std::uint64_t{0};
  const std::size_t steps = 2 * chunks.size();
  for (const Decision& decision : log) {
    if (std::exchange(iteration, decision.iteration) != decision.iteration) {
      launched.assign(steps * scenario.pipeline.microbatches(), false);
    }
    if (decision.task.pass == Pass::WeightGrad) continue;
    const auto position = static_cast<std::size_t>(
        std::find(chunks.begin(), chunks.end(), decision.task.chunk) - chunks.begin());
    const std::size_t step = decision.task.pass == Pass::Forward ? position : steps - 1 - position;
    const std::size_t place = decision.task.microbatch * steps + step;
    if (decision.focus && scenario.rules.mixed_at_limit && scenario.rules.bounded_admission)
      return name({iteration, decision.task}) + " ran in focus although admitted work may mix";
    if (decision.focus) {
      for (std::size_t before = 0; before < place; ++before) {
        const bool exists =
            before % steps < chunks.size() || kind_of(scenario, iteration) == IterationKind::Training;
        if (exists && !launched[before])
          return name({iteration, decision.task}) + " ran at the limit out of focus";
      }
    }
    launched[place] = true;
  }
  return {};
}

/// On one lane, a forward that the limit keeps out, no other to run, and a weight gradient that could.
std::string fault_in_room(const Scenario& scenario, const std::vector<Decision>& log) {
  if (!scenario.rules.weight_grad_makes_room || scenario.lanes != decltype(scenario.lanes){}) return {};
  for (const Decision& decision : log) {
    const bool wanted = decision.held_by_limit > 0 && decision.runnable[0] == 0 && decision.runnable[2] > 0;
    if (wanted && decision.task.pass != Pass::WeightGrad)
      return name({decision.iteration, decision.task}) + " ran before a weight gradient that makes room";
  }
  return {};
}

std::string fault_in_slots(const Scenario& scenario, const Record& record) {
  if (!record.slot_faults.empty()) return record.slot_faults.front();
  for (const Execution& execution : record.executions) {
    if (execution.slot >= record.slots[execution.stage])
      return name({execution.iteration, execution.task}) + " has no slot";
  }
  if (!scenario.rules.hold_until_weight_grad) return {};
  for (StageId stage = 0; stage < record.slots.size(); ++stage) {
    const std::uint32_t chunks = chunks_on(scenario.pipeline, stage);
    const std::uint32_t pairs = chunks * scenario.pipeline.microbatches();
    if (record.slots[stage] != std::min(scenario.limits[stage] + (chunks > 1 ? chunks : 0), pairs))
      return "the pool has another size";
  }
  return {};
}

}  // namespace

std::string fault_in(const Scenario& scenario, const Record& record) {
  Executions executions;
  for (const Execution& execution : record.executions) {
    const Key key{execution.iteration, execution.task};
    if (!executions.emplace(key, execution).second) return name(key) + " ran twice";
  }
  std::string fault = fault_in_counts(scenario, executions);
  if (fault.empty()) fault = fault_in_dependencies(scenario, executions);
  if (fault.empty()) fault = fault_in_lanes(scenario, record);
  if (fault.empty()) fault = fault_in_accumulation(scenario, executions);
  if (fault.empty()) fault = fault_in_bound(scenario, record);
  if (fault.empty()) fault = fault_in_slots(scenario, record);
  for (StageId stage = 0; fault.empty() && stage < record.logs.size(); ++stage) {
    fault = fault_in_focus(scenario, stage, record.logs[stage]);
    if (fault.empty()) fault = fault_in_room(scenario, record.logs[stage]);
  }
  return fault;
}

std::vector<std::vector<Task>> sequences(const Record& record) {
  std::vector<std::vector<Task>> orders;
  for (const auto& log : record.logs) {
    orders.emplace_back();
    for (const Decision& decision : log) orders.back().push_back(decision.task);
  }
  return orders;
}

}  // namespace sluice::test
