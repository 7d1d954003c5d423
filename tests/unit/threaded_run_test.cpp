#include "sluice/host/threaded_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "arithmetic_stage.hpp"
#include "sluice/error.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::host {
namespace {

using namespace std::chrono_literals;

ThreadedRun::PolicyOf by_hint(const Pipeline& pipeline, const std::string& name) {
  return [&pipeline, name](StageId stage) { return Policy::readiness(Hint::named(name, pipeline, stage)); };
}

ThreadedRun::PolicyOf by_schedule(const Pipeline& pipeline, const std::string& name) {
  return [policies = Policy::fixed(Schedule::named(name, pipeline), pipeline, Rules{})](StageId stage) {
    return policies[stage];
  };
}

Duration short_task(const Launch& launch) {
  return std::chrono::microseconds(20 + launch.task.microbatch % 7);
}

Workload emulated() {
  Workload workload;
  workload.task_time = short_task;
  return workload;
}

RunSettings late_messages() {
  RunSettings options;
  options.delays = DelayModel::parse("tail:0.5,0.2");
  options.seed = 3;
  return options;
}

/// Each task of the stage once, and none that is not its own.
void expect_every_task(const Pipeline& pipeline, const IterationReport& report, IterationKind kind) {
  ASSERT_EQ(report.ranks.size(), pipeline.stages());
  for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
    std::set<Task> ran;
    for (const Done& done : report.ranks[stage].ran)
      EXPECT_TRUE(ran.insert(done.task).second) << to_string(done.task);
    std::size_t expected = 0;
    for (const Chunk chunk : pipeline.chunks_of(stage)) {
      for (Microbatch m = 0; m < pipeline.microbatches(); ++m) {
        EXPECT_TRUE(ran.contains({m, chunk, Pass::Forward}));
        EXPECT_EQ(ran.contains({m, chunk, Pass::Backward}), kind == IterationKind::Training);
      }
      expected += pipeline.microbatches() * (kind == IterationKind::ForwardOnly ? 1U
                                             : pipeline.split_backward()        ? 3U
                                                                                : 2U);
    }
    EXPECT_GE(ran.size(), expected);
    EXPECT_EQ(report.ranks[stage].tasks, ran.size());
  }
}

struct Case {
  std::string name;
  Pipeline pipeline;
  bool schedule;
  std::string method;
};

std::vector<Case> cases() {
  std::vector<Case> result;
  for (const auto hint : Hint::names()) {
    const bool split = hint == "bfw";
    result.push_back({"Chain", Pipeline::chain(4, 12, split), false, std::string(hint)});
    result.push_back({"Interleaved", Pipeline::interleaved(3, 2, 6, split), false, std::string(hint)});
    result.push_back({"VShape", Pipeline::v_shape(3, 7, split), false, std::string(hint)});
  }
  const std::uint32_t encoders[] = {2, 1};
  result.push_back({"Joined", Pipeline::joined(encoders, 2, 9), false, "bf"});
  result.push_back({"EightRanks", Pipeline::chain(8, 16, true), false, "bfw"});
  result.push_back({"OneRank", Pipeline::chain(1, 5), false, "bf"});
  result.push_back({"Chain", Pipeline::chain(4, 12), true, "gpipe"});
  result.push_back({"Chain", Pipeline::chain(4, 12), true, "1f1b"});
  result.push_back({"Chain", Pipeline::chain(4, 12, true), true, "zb-h1"});
  result.push_back({"Interleaved", Pipeline::interleaved(3, 2, 6), true, "interleaved"});
  return result;
}

class EveryMethod : public ::testing::TestWithParam<Case> {
 protected:
  [[nodiscard]] ThreadedRun::PolicyOf policy() const {
    const Case& value = GetParam();
    return value.schedule ? by_schedule(value.pipeline, value.method) : by_hint(value.pipeline, value.method);
  }
};

TEST_P(EveryMethod, RunsEveryTaskOnTheEmulatedDevice) {
  const Pipeline& pipeline = GetParam().pipeline;
  for (const RunSettings& options : {RunSettings{}, late_messages()}) {
    ThreadedRun run(pipeline, policy(), emulated(), options);
    for (std::uint64_t i = 0; i < 2; ++i) expect_every_task(pipeline, run.run({i}), IterationKind::Training);
    expect_every_task(pipeline, run.run({2, IterationKind::ForwardOnly}), IterationKind::ForwardOnly);
    expect_every_task(pipeline, run.run({3}), IterationKind::Training);
    EXPECT_FALSE(run.failed());
  }
}

/// The same weights, to the last bit, as one microbatch after the other in one thread.
TEST_P(EveryMethod, ComputesWhatASequentialRunDoes) {
  const Pipeline& pipeline = GetParam().pipeline;
  test::ArithmeticStages reference = test::make_stages(pipeline);
  const std::vector<Iteration> iterations{{0}, {1}, {2, IterationKind::ForwardOnly}, {3}};
  for (const Iteration& iteration : iterations) {
    test::run_sequentially(pipeline, iteration, reference);
    for (const auto& stage : reference) stage->step();
  }
  for (const std::uint32_t depth : {1U, 2U}) {
    test::ArithmeticStages stages = test::make_stages(pipeline);
    Workload workload;
    workload.stages = test::pointers(stages);
    workload.after_iteration = [&](std::uint32_t rank, const Iteration&) {
      for (const Chunk chunk : pipeline.chunks_of(static_cast<StageId>(rank))) stages[chunk]->step();
    };
    RunSettings options = late_messages();
    options.depth = depth;
    ThreadedRun run(pipeline, policy(), workload, options);
    for (const Iteration& iteration : iterations)
      expect_every_task(pipeline, run.run(iteration), iteration.kind);
    EXPECT_EQ(test::weights(stages), test::weights(reference)) << "depth " << depth;
    for (const auto& stage : stages) EXPECT_EQ(stage->gradient(), 0);
  }
}

std::string name_of(const ::testing::TestParamInfo<Case>& tested) {
  std::string name = tested.param.name + "_" + tested.param.method;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(ThreadedRun, EveryMethod, ::testing::ValuesIn(cases()), name_of);

TEST(ThreadedRun, AForwardOnlyIterationComputesWhatASequentialOneDoes) {
  const Pipeline pipeline = Pipeline::chain(3, 10);
  test::ArithmeticStages reference = test::make_stages(pipeline);
  test::run_sequentially(pipeline, {0, IterationKind::ForwardOnly}, reference);
  test::ArithmeticStages stages = test::make_stages(pipeline);
  Workload workload;
  workload.stages = test::pointers(stages);
  RunSettings options;
  options.limit = 1;
  ThreadedRun run(pipeline, by_hint(pipeline, "bf"), workload, options);
  run.run({0, IterationKind::ForwardOnly});
  EXPECT_EQ(stages[2]->evaluated(), reference[2]->evaluated());
  EXPECT_NE(stages[2]->evaluated(), 0);
  EXPECT_EQ(stages[2]->gradient(), 0);
}

TEST(ThreadedRun, NeverHoldsMoreThanTheLimit) {
  const Pipeline pipeline = Pipeline::chain(4, 20);
  for (const std::uint32_t limit : {1U, 2U, 3U}) {
    RunSettings options = late_messages();
    options.limit = limit;
    ThreadedRun run(pipeline, by_hint(pipeline, "f-priority"), emulated(), options);
    for (const RankReport& rank : run.run({0}).ranks) {
      EXPECT_GE(rank.peak_in_flight, 1U);
      EXPECT_LE(rank.peak_in_flight, limit);
    }
  }
}

TEST(ThreadedRun, TheReportAccountsForTheTime) {
  const Pipeline pipeline = Pipeline::chain(3, 8);
  ThreadedRun run(pipeline, by_hint(pipeline, "bf"), emulated(), {});
  const IterationReport report = run.run({0});
  EXPECT_GT(report.bubble_fraction(), 0);
  EXPECT_LT(report.bubble_fraction(), 1);
  for (const RankReport& rank : report.ranks) {
    Duration busy{0};
    for (const Done& done : rank.ran) busy += done.ended - done.started;
    EXPECT_EQ(rank.busy, busy);
    EXPECT_GE(rank.blocked, Duration{0});
    EXPECT_LE(report.started, rank.started);
    EXPECT_GE(report.ended, rank.ended);
    EXPECT_LE(rank.busy + rank.blocked, rank.ended - rank.started);
    EXPECT_GT(rank.dispatching, Duration{0});
  }
}

TEST(ThreadedRun, CallsTheHooksOfEachRankOnceAnIteration) {
  const Pipeline pipeline = Pipeline::chain(3, 4);
  std::vector<std::atomic<int>> before(3);
  std::vector<std::atomic<int>> after(3);
  Workload workload = emulated();
  workload.before_iteration = [&](std::uint32_t rank, const Iteration&) { ++before[rank]; };
  workload.after_iteration = [&](std::uint32_t rank, const Iteration&) {
    EXPECT_EQ(before[rank], after[rank] + 1);
    ++after[rank];
  };
  ThreadedRun run(pipeline, by_hint(pipeline, "bf"), workload, {});
  for (std::uint64_t i = 0; i < 3; ++i) run.run({i});
  for (std::uint32_t rank = 0; rank < 3; ++rank) EXPECT_EQ(after[rank], 3);
}

TEST(ThreadedRun, RunsOnDevicesOfTheEmbedder) {
  const Pipeline pipeline = Pipeline::chain(3, 8, true);
  const SteadyClock clock;
  std::set<std::uint32_t> ranks;
  Workload workload;
  workload.make_device = [&](std::uint32_t rank, StageId, std::uint32_t slots, Wake&) {
    EXPECT_TRUE(ranks.insert(rank).second);
    EXPECT_EQ(slots, 4U);
    return std::make_unique<EmulatedExecutor>(clock, short_task);
  };
  RunSettings options;
  options.limit = 4;
  ThreadedRun run(pipeline, by_hint(pipeline, "bfw"), workload, options);
  EXPECT_EQ(ranks.size(), 3U);
  for (std::uint64_t i = 0; i < 2; ++i) expect_every_task(pipeline, run.run({i}), IterationKind::Training);
}

TEST(ThreadedRun, MayBeDestroyedWithoutHavingRun) {
  const Pipeline pipeline = Pipeline::chain(3, 4);
  const ThreadedRun run(pipeline, by_hint(pipeline, "bf"), emulated(), {});
  EXPECT_FALSE(run.failed());
}

TEST(ThreadedRun, RefusesABadConfigurationBeforeAnythingStarts) {
  const Pipeline pipeline = Pipeline::chain(3, 4);
  const auto field_of = [&](const Workload& workload, const RunSettings& options) -> std::string {
    try {
      const ThreadedRun run(pipeline, by_hint(pipeline, "bf"), workload, options);
      return "accepted";
    } catch (const ConfigError& error) {
      return error.field();
    }
  };
  RunSettings no_limit;
  no_limit.limit = 0;
  EXPECT_EQ(field_of(emulated(), no_limit), "limit");
  RunSettings no_depth;
  no_depth.depth = 0;
  EXPECT_EQ(field_of(emulated(), no_depth), "launch-ahead");
  EXPECT_EQ(field_of({}, {}), "workload");
  RunSettings too_few_observers;
  too_few_observers.observers = {nullptr};
  EXPECT_EQ(field_of(emulated(), too_few_observers), "observers");
  test::ArithmeticStages stages = test::make_stages(Pipeline::chain(2, 4));
  Workload too_few;
  too_few.stages = test::pointers(stages);
  EXPECT_EQ(field_of(too_few, {}), "stages");
}

TEST(ThreadedRun, APolicyThatThrowsLeavesNothingBehind) {
  const Pipeline pipeline = Pipeline::chain(3, 4);
  const auto policy_of = [&](StageId stage) -> Policy {
    if (stage == 2) throw ConfigError("hint", "none for this stage");
    return Policy::readiness(Hint::named("bf", pipeline, stage));
  };
  EXPECT_THROW(ThreadedRun(pipeline, policy_of, emulated(), {}), ConfigError);
}

}  // namespace
}  // namespace sluice::host
