#include "run/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "run/slot_check.hpp"
#include "run/what_if.hpp"
#include "sluice/error.hpp"
#include "sluice/host/threaded_run.hpp"
#include "sluice/schedule.hpp"
#include "sluice/seconds.hpp"
#include "sluice/sim/world.hpp"

namespace sluice::tools {
namespace {

using trace::RecordedRun;

/// Any share does: what a log runs is what was recorded.
constexpr double kUnusedShare = 0.5;

Schedule order_of(const RecordedRun& run, std::uint64_t iteration) {
  std::vector<std::vector<Task>> orders(run.pipeline.stages());
  for (std::size_t stage = 0; stage < orders.size(); ++stage) {
    for (const Decision& each : run.decisions[stage]) {
      if (each.iteration == iteration) orders[stage].push_back(each.task);
    }
  }
  return {"replay", std::move(orders)};
}

std::string describe(const Decision& decision) {
  return to_string(decision.task) + (decision.whole ? ", whole," : "") + " of iteration " +
         std::to_string(decision.iteration);
}

/// Compares what one stage decided with its log, from where the last call ended.
class Verification {
 public:
  explicit Verification(const RecordedRun& run) : run_(run), next_(run.pipeline.stages(), 0) {}

  void check(StageId stage, std::span<const Decision> ran) {
    for (const Decision& each : ran) {
      const std::size_t at = next_[stage]++;
      if (at >= run_.decisions[stage].size()) fail(stage, at, describe(each) + " ran after the log's end");
      const Decision& logged = run_.decisions[stage][at];
      if (logged.task == each.task && logged.whole == each.whole && logged.iteration == each.iteration)
        continue;
      fail(stage, at, describe(each) + " ran, the log has " + describe(logged));
    }
  }

  /// @return decisions of all stages
  std::size_t finish() const {
    std::size_t all = 0;
    for (StageId stage = 0; stage < next_.size(); ++stage) {
      if (next_[stage] != run_.decisions[stage].size())
        fail(stage, next_[stage], "the log goes on, the run has ended");
      all += next_[stage];
    }
    return all;
  }

 private:
  [[noreturn]] static void fail(StageId stage, std::size_t at, const std::string& what) {
    throw Error(fmt::format("replay: stage {}, decision {}: {}", stage, at, what));
  }

  const RecordedRun& run_;
  std::vector<std::size_t> next_;
};

Replayed replay_in_runtime(const RecordedRun& run, const RecordedTimes& times,
                           const std::function<void(std::size_t)>& on_iteration) {
  host::RunSettings options;
  options.limits = run.limits;
  options.rules = run.rules;
  options.depth = run.launch_ahead;
  options.record_decisions = true;
  host::Workload workload;
  workload.task_time = [&times](const Launch& launch) { return times.task(launch); };
  host::ThreadedRun threads(
      run.pipeline,
      [&run](StageId stage) { return Policy::replay(run.decisions[stage], run.pipeline, stage); },
      std::move(workload), options);
  Replayed replayed;
  Verification verification(run);
  for (const trace::RecordedIteration& each : run.iterations) {
    replayed.iteration_seconds.push_back(seconds(threads.run(each.iteration).duration()));
    for (StageId stage = 0; stage < run.pipeline.stages(); ++stage) {
      verification.check(stage, threads.log(stage).decisions());
      threads.log(stage).clear();
    }
    if (on_iteration) on_iteration(replayed.iteration_seconds.size());
  }
  replayed.decisions = verification.finish();
  return replayed;
}

Replayed replay_in_simulator(const RecordedRun& run, const RecordedTimes& times,
                             const std::function<void(std::size_t)>& on_iteration) {
  std::vector<sim::StageSetup> setups;
  for (StageId stage = 0; stage < run.pipeline.stages(); ++stage) {
    DispatcherConfig config;
    config.rank = config.stage = stage;
    config.limit = run.limits[stage];
    config.rules = run.rules;
    config.record_decisions = true;
    setups.push_back({config, Policy::replay(run.decisions[stage], run.pipeline, stage)});
  }
  sim::World world(run.pipeline, std::move(setups), recorded_surroundings(run, times));
  Replayed replayed;
  Verification verification(run);
  for (const trace::RecordedIteration& each : run.iterations) {
    replayed.iteration_seconds.push_back(seconds(world.run(each.iteration)));
    for (StageId stage = 0; stage < run.pipeline.stages(); ++stage) {
      verification.check(stage, world.dispatcher(stage).log().decisions());
      world.dispatcher(stage).log().clear();
    }
    if (on_iteration) on_iteration(replayed.iteration_seconds.size());
  }
  replayed.decisions = verification.finish();
  return replayed;
}

}  // namespace

void check_replayable(const RecordedRun& run) {
  if (run.lost > 0)
    throw ConfigError("replay", fmt::format("the recording lost {} events, so its log has gaps", run.lost));
  const bool empty =
      std::all_of(run.decisions.begin(), run.decisions.end(), [](const auto& log) { return log.empty(); });
  if (empty) throw ConfigError("replay", "the recording holds no decisions");
  for (const trace::RecordedIteration& each : run.iterations) {
    if (each.iteration.kind == IterationKind::ForwardOnly) continue;
    const auto faults = order_of(run, each.iteration.index).faults(run.pipeline);
    if (faults.empty()) continue;
    throw ConfigError("replay",
                      fmt::format("iteration {}, {}", each.iteration.index, to_string(faults.front())));
  }
  for (StageId stage = 0; stage < run.pipeline.stages(); ++stage)
    (void)Policy::replay(run.decisions[stage], run.pipeline, stage);
  check_slots(run);
}

Replayed replay(const RecordedRun& run, ReplayOn on, const std::function<void(std::size_t)>& on_iteration) {
  check_replayable(run);
  const RecordedTimes times(run, kUnusedShare);
  return on == ReplayOn::Runtime ? replay_in_runtime(run, times, on_iteration)
                                 : replay_in_simulator(run, times, on_iteration);
}

}  // namespace sluice::tools
