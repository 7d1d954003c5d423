#include <gtest/gtest.h>

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "sluice/host/threaded_run.hpp"
#include "sluice/sim/world.hpp"

/// Decision logs: what a run records, another run and the simulator repeat.
namespace sluice::host {
namespace {

using namespace std::chrono_literals;

using Sequence = std::vector<Task>;

Sequence tasks_of(std::span<const Decision> log) {
  Sequence tasks;
  for (const Decision& decision : log) tasks.push_back(decision.task);
  return tasks;
}

Duration short_task(const Launch& launch) {
  return std::chrono::microseconds(30 + launch.task.microbatch % 11);
}

class ThreadedRunReplay : public ::testing::TestWithParam<Pipeline> {
 protected:
  static constexpr std::uint64_t kIterations = 3;

  [[nodiscard]] static Iteration iteration(std::uint64_t index) {
    return {index, index == 1 ? IterationKind::ForwardOnly : IterationKind::Training};
  }
  [[nodiscard]] static RunSettings options(const char* delays, std::uint64_t seed) {
    RunSettings options;
    options.limit = 4;
    options.record_decisions = true;
    options.delays = DelayModel::parse(delays);
    options.seed = seed;
    return options;
  }
  /// The logs of all stages.
  [[nodiscard]] std::vector<std::vector<Decision>> run(const ThreadedRun::PolicyOf& policy,
                                                       const RunSettings& options) const {
    Workload workload;
    workload.task_time = short_task;
    ThreadedRun run(GetParam(), policy, workload, options);
    for (std::uint64_t i = 0; i < kIterations; ++i) run.run(iteration(i));
    std::vector<std::vector<Decision>> logs;
    for (StageId stage = 0; stage < GetParam().stages(); ++stage) {
      EXPECT_EQ(run.log(stage).dropped(), 0U);
      const auto decisions = run.log(stage).decisions();
      logs.emplace_back(decisions.begin(), decisions.end());
    }
    return logs;
  }
  [[nodiscard]] std::vector<std::vector<Decision>> recorded() const {
    const char* hint = GetParam().split_backward() ? "bfw" : "bf";
    return run([&](StageId stage) { return Policy::readiness(Hint::named(hint, GetParam(), stage)); },
               options("tail:0.5,0.3", 5));
  }
};

TEST_P(ThreadedRunReplay, TheLogHoldsEveryLaunch) {
  for (const auto& log : recorded()) {
    std::size_t of_iteration[kIterations] = {};
    for (const Decision& decision : log) ++of_iteration[decision.iteration];
    EXPECT_GE(of_iteration[0], 2 * of_iteration[1]);
    EXPECT_GT(of_iteration[1], 0U);
    EXPECT_GE(of_iteration[2], 2 * of_iteration[1]);
  }
}

TEST_P(ThreadedRunReplay, AnotherRunRepeatsTheLogWhateverIsLate) {
  const auto logs = recorded();
  const auto again = run([&](StageId stage) { return Policy::replay(logs[stage], GetParam(), stage); },
                         options("tail:0.5,0.3", 99));
  for (StageId stage = 0; stage < GetParam().stages(); ++stage) {
    ASSERT_EQ(again[stage].size(), logs[stage].size());
    EXPECT_EQ(tasks_of(again[stage]), tasks_of(logs[stage])) << "stage " << stage;
    for (std::size_t i = 0; i < logs[stage].size(); ++i)
      EXPECT_EQ(again[stage][i].whole, logs[stage][i].whole);
  }
}

TEST_P(ThreadedRunReplay, TheSimulatorRepeatsTheLog) {
  const auto logs = recorded();
  std::vector<sim::StageSetup> setups;
  for (StageId stage = 0; stage < GetParam().stages(); ++stage) {
    DispatcherConfig config;
    config.rank = config.stage = stage;
    config.limit = 4;
    config.record_decisions = true;
    setups.push_back({config, Policy::replay(logs[stage], GetParam(), stage)});
  }
  sim::World world(GetParam(), std::move(setups), {short_task});
  for (std::uint64_t i = 0; i < kIterations; ++i) world.run(iteration(i));
  for (StageId stage = 0; stage < GetParam().stages(); ++stage) {
    EXPECT_EQ(tasks_of(world.dispatcher(stage).log().decisions()), tasks_of(logs[stage]))
        << "stage " << stage;
  }
}

std::string name_of(const ::testing::TestParamInfo<Pipeline>& tested) {
  const Pipeline& pipeline = tested.param;
  return std::to_string(pipeline.stages()) + "Stages" + std::to_string(pipeline.chunks()) + "Chunks" +
         (pipeline.split_backward() ? "Split" : "Whole");
}

INSTANTIATE_TEST_SUITE_P(Pipelines, ThreadedRunReplay,
                         ::testing::Values(Pipeline::chain(4, 12), Pipeline::chain(4, 12, true),
                                           Pipeline::interleaved(2, 2, 8), Pipeline::v_shape(3, 8, true)),
                         name_of);

}  // namespace
}  // namespace sluice::host
