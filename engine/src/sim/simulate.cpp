#include <algorithm>
#include <utility>

#include "sluice/sim/lower_bound.hpp"
#include "sluice/sim/scenario.hpp"

namespace sluice::sim {
namespace {

struct ReplicaRun {
  Duration makespan{0};
  std::vector<StageReport> stages;
};

ReplicaRun run_replica(const Scenario& scenario, const Pipeline& pipeline, std::vector<StageSetup> setups,
                       std::uint64_t iteration, std::uint32_t replica, const Inspect& inspect,
                       const Learn& learn) {
  World world(pipeline, std::move(setups), surroundings(scenario, replica));
  if (scenario.measures_compute() || learn) {
    (void)world.run({0, IterationKind::Training});
    if (learn) learn(world, replica);
    for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
      for (std::uint32_t member = 0; member < scenario.group.size; ++member) {
        Dispatcher& dispatcher = world.dispatcher(stage, member);
        dispatcher.log().clear();
        if (dispatcher.config().recorder != nullptr) dispatcher.config().recorder->clear();
      }
    }
  }
  if (inspect) world.keep_runs();
  ReplicaRun run;
  run.makespan = world.run({iteration, IterationKind::Training});
  for (StageId stage = 0; stage < pipeline.stages(); ++stage) run.stages.push_back(world.report(stage));
  if (inspect) inspect(world, replica);
  return run;
}

}  // namespace

Outcome simulate(const Scenario& scenario, const Pipeline& pipeline, const StageSetups& setups,
                 std::uint64_t iteration, const Inspect& inspect, const Learn& learn) {
  std::vector<ReplicaRun> runs;
  Outcome outcome;
  for (std::uint32_t replica = 0; replica < scenario.replicas; ++replica) {
    runs.push_back(run_replica(scenario, pipeline, setups(), iteration, replica, inspect, learn));
    outcome.makespan = std::max(outcome.makespan, runs.back().makespan);
  }
  outcome.stages.resize(pipeline.stages());
  const auto replicas = static_cast<Duration::rep>(runs.size());
  for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
    StageReport& mean = outcome.stages[stage];
    for (const ReplicaRun& run : runs) {
      mean.compute += run.stages[stage].compute;
      mean.agreement += run.stages[stage].agreement;
      mean.decisions += run.stages[stage].decisions;
      mean.deferrals += run.stages[stage].deferrals;
      mean.picks_differed += run.stages[stage].picks_differed;
      mean.peak_in_flight = std::max(mean.peak_in_flight, run.stages[stage].peak_in_flight);
    }
    mean.compute /= replicas;
    mean.agreement /= replicas;
    mean.blocked = outcome.makespan - mean.compute - mean.agreement;
  }
  return outcome;
}

Duration bound(const Scenario& scenario, const Pipeline& pipeline, std::uint64_t iteration) {
  Duration slowest{0};
  for (std::uint32_t replica = 0; replica < scenario.replicas; ++replica) {
    const Draws draws(scenario, replica);
    Realized realized;
    realized.iteration = iteration;
    realized.notice = scenario.overhead.task;
    realized.task_time = [&](const Task& task, bool whole) {
      return draws.task_time(iteration, task, whole);
    };
    realized.message_delay = [&](const MessageId& id) {
      return draws.least_delay(id) + scenario.overhead.hop;
    };
    slowest = std::max(slowest, lower_bound(pipeline, realized));
  }
  return slowest;
}

}  // namespace sluice::sim
