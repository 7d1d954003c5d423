#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "sluice/dispatcher.hpp"
#include "sluice/error.hpp"

namespace sluice {
namespace {

/// Most pairs in flight over all the iterations of a log.
std::uint32_t peak_of(const std::vector<Decision>& log) {
  std::uint32_t held = 0;
  std::uint32_t peak = 0;
  std::uint64_t iteration = 0;
  for (const Decision& decision : log) {
    if (decision.iteration != iteration) held = 0;
    iteration = decision.iteration;
    if (decision.task.pass == Pass::Forward) peak = std::max(peak, ++held);
    if ((decision.task.pass == Pass::WeightGrad || decision.whole) && held > 0) --held;
  }
  return peak;
}

[[noreturn]] void refuse(std::size_t position, const std::string& reason) {
  throw ConfigError("replay", "decision " + std::to_string(position) + ": " + reason);
}

/// A backward is whole, or its weight gradient follows: never both, never neither.
void check_wholes(const std::vector<Decision>& log, const Pipeline& pipeline) {
  using Pair = std::tuple<std::uint64_t, Chunk, Microbatch>;
  std::map<Pair, std::size_t> split;
  for (std::size_t i = 0; i < log.size(); ++i) {
    const Task& task = log[i].task;
    const Pair pair{log[i].iteration, task.chunk, task.microbatch};
    if (task.pass == Pass::Backward && !log[i].whole) {
      if (!pipeline.splittable(task.chunk)) refuse(i, to_string(task) + " is split but its chunk cannot be");
      split.emplace(pair, i);
    }
    if (task.pass == Pass::WeightGrad && split.erase(pair) == 0)
      refuse(i, to_string(task) + " follows no split backward");
  }
  if (split.empty()) return;
  const std::size_t first = std::min_element(split.begin(), split.end(), [](auto& a, auto& b) {
                              return a.second < b.second;
                            })->second;
  refuse(first, to_string(log[first].task) + " is split but its weight gradient is missing");
}

}  // namespace

Policy Policy::readiness(Hint hint) { return {Mode::Readiness, std::move(hint)}; }

std::vector<Policy> Policy::fixed(const Schedule& schedule, const Pipeline& pipeline, const Rules& rules) {
  schedule.validate(pipeline);
  const Schedule executed =
      rules.ordered_accumulation ? schedule.with_ordered_accumulation(pipeline) : schedule;
  std::vector<Policy> policies;
  policies.reserve(executed.stages());
  for (StageId stage = 0; stage < executed.stages(); ++stage) {
    Policy policy(Mode::Fixed, Hint::named("bf", pipeline, stage));
    policy.fixed_.assign(executed.order(stage).begin(), executed.order(stage).end());
    policy.peak_ = executed.peak_in_flight(pipeline, stage);
    policies.push_back(std::move(policy));
  }
  return policies;
}

Policy Policy::replay(std::vector<Decision> log, const Pipeline& pipeline, StageId stage) {
  const StageTasks tasks(pipeline, stage);
  for (std::size_t i = 0; i < log.size(); ++i) {
    if (!tasks.contains(log[i].task))
      refuse(i, to_string(log[i].task) + " is not a task of stage " + std::to_string(stage));
  }
  check_wholes(log, pipeline);
  Policy policy(Mode::Replay, Hint::named("bf", pipeline, stage));
  policy.peak_ = peak_of(log);
  policy.log_ = std::move(log);
  return policy;
}

std::uint32_t Policy::slots(const Pipeline& pipeline, StageId stage, std::uint32_t limit,
                            const Rules& rules) const {
  const Backpressure backpressure(pipeline, stage, limit, rules);
  if (mode_ != Mode::Readiness) return std::max(peak_, backpressure.credits());
  if (rules.hold_until_weight_grad || !rules.bounded_admission) return backpressure.credits();
  // Credits come back before the weight gradient has run, so only the number of pairs bounds the slots.
  return StageTasks(pipeline, stage).size();
}

std::vector<Task> Policy::order(const Iteration& iteration) const {
  std::vector<Task> order;
  if (mode_ == Mode::Replay) {
    for (const Decision& decision : log_) {
      if (decision.iteration == iteration.index) order.push_back(decision.task);
    }
    return order;
  }
  for (const Task& task : fixed_) {
    if (iteration.kind == IterationKind::Training || task.pass == Pass::Forward) order.push_back(task);
  }
  return order;
}

}  // namespace sluice
