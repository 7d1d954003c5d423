#include "sluice/sim/scenario.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "sluice/error.hpp"

namespace sluice::sim {
namespace {

using namespace std::chrono_literals;
using host::DelayModel;
using host::DurationModel;

Scenario uniform(Pipeline pipeline, double sigma = 0) {
  Scenario scenario(std::move(pipeline));
  for (auto& times : scenario.times) times = DurationModel({10e6, 20e6, 10e6}, sigma);
  return scenario;
}

StageSetups setups(const Scenario& scenario, const Pipeline& pipeline, std::string_view hint) {
  return [&scenario, &pipeline, hint] {
    std::vector<StageSetup> made;
    for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
      DispatcherConfig config;
      config.rank = config.stage = stage;
      config.limit = scenario.limits[stage];
      config.rules = scenario.rules;
      config.record_decisions = true;
      made.push_back({config, Policy::readiness(Hint::named(hint, pipeline, stage))});
    }
    return made;
  };
}

Outcome run(const Scenario& scenario, std::string_view hint = "bf", std::uint64_t iteration = 1) {
  return simulate(scenario, scenario.pipeline, setups(scenario, scenario.pipeline, hint), iteration);
}

TEST(Scenario, IsValidAsMadeAndTakesNoTime) {
  const Scenario scenario(Pipeline::chain(3, 4));
  EXPECT_NO_THROW(scenario.validate());
  EXPECT_EQ(run(scenario).makespan, 0ns);
}

TEST(Scenario, ErrorsNameTheField) {
  const auto field_of = [](const std::function<void(Scenario&)>& change) -> std::string {
    Scenario scenario(Pipeline::chain(3, 4));
    change(scenario);
    try {
      scenario.validate();
    } catch (const ConfigError& error) {
      return error.field();
    }
    return "none";
  };
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(field_of([](Scenario& s) { s.pipeline = s.pipeline.with_split(true); }), "pipeline");
  EXPECT_EQ(field_of([](Scenario& s) { s.times.pop_back(); }), "times");
  EXPECT_EQ(field_of([](Scenario& s) { s.links.emplace_back(); }), "links");
  EXPECT_EQ(field_of([](Scenario& s) { s.limits.clear(); }), "limit");
  EXPECT_EQ(field_of([](Scenario& s) { s.links[1].latency = -1ns; }), "links[1].latency");
  EXPECT_EQ(field_of([](Scenario& s) { s.links[0].bandwidth = nan; }), "links[0].bandwidth");
  EXPECT_EQ(field_of([](Scenario& s) { s.links[0] = {0ns, 1, 1'000'000, {}}; }), "links[0].bytes");
  EXPECT_EQ(field_of([](Scenario& s) { s.sizes = {{{}, 0.1, {}}}; }), "sizes[0].chunks");
  EXPECT_EQ(field_of([](Scenario& s) { s.sizes = {{{3}, 0.1, {}}}; }), "sizes[0].chunks");
  EXPECT_EQ(field_of([](Scenario& s) { s.sizes = {{{0}, 0.1, {}}, {{0}, 0.1, {}}}; }), "sizes[1].chunks");
  EXPECT_EQ(field_of([](Scenario& s) { s.sizes = {{{0}, 3, {}}}; }), "sizes[0].sigma");
  EXPECT_EQ(field_of([](Scenario& s) { s.sizes = {{{0}, 0, {1, 2}}}; }), "sizes[0].factors");
  EXPECT_EQ(field_of([](Scenario& s) { s.sizes = {{{0}, 0, {1, 2, 3, nan}}}; }), "sizes[0].factors");
  EXPECT_EQ(field_of([](Scenario& s) { s.replicas = 0; }), "replicas");
  EXPECT_EQ(field_of([](Scenario& s) { s.group.size = 65; }), "group");
  EXPECT_EQ(field_of([](Scenario& s) { s.group.latency = -1ns; }), "agreement-latency");
  EXPECT_EQ(field_of([](Scenario& s) { s.depth = 0; }), "launch-ahead");
  EXPECT_EQ(field_of([](Scenario& s) { s.skew.mean = 1h; }), "skew");
  EXPECT_EQ(field_of([](Scenario& s) { s.overhead.hop = -1ns; }), "overhead.hop");
  EXPECT_EQ(field_of([](Scenario& s) { s.pipeline = Pipeline::chain(3, 1U << 21U).with_split(false); }),
            "none");
}

TEST(Scenario, TheNumberOfTasksIsBounded) {
  EXPECT_THROW(Scenario(Pipeline::chain(64, 1U << 22U)).validate(), ConfigError);
}

/// Full ranks that never name the same task: found as a stall of bfw with the default rules.
TEST(Scenario, FirstPickNeedsThePublishedRules) {
  Scenario scenario(Pipeline::chain(2, 4));
  scenario.group = {2, GroupRule::FirstPick, 0ns};
  EXPECT_THROW(scenario.validate(), ConfigError);
  scenario.rules = Rules::paper();
  EXPECT_NO_THROW(scenario.validate());
}

TEST(Draws, AreThoseOfAnEmulatedRun) {
  const DurationModel stage = DurationModel::parse("f=7ms,b=15ms,w=6ms,sigma=0.3");
  const DelayModel jitter = DelayModel::parse("tail:0.5,10");
  Scenario scenario(Pipeline::interleaved(2, 3, 8));
  scenario.seed = 11;
  for (auto& times : scenario.times) times = stage.per_chunk(3);
  for (Link& link : scenario.links) link.jitter = jitter;
  const Draws draws(scenario);
  for (Microbatch m = 0; m < 8; ++m) {
    const Task backward{m, 4, Pass::Backward};
    EXPECT_EQ(draws.task_time(2, backward, true), stage.draw(11, 2, backward, true, 3));
    EXPECT_EQ(draws.task_time(2, backward, false), stage.draw(11, 2, backward, false, 3));
    const MessageId id{2, m, 3, Direction::Gradient};
    EXPECT_EQ(draws.message_delay({id, 0, 0, {}}), jitter.draw(11, id, {}));
  }
}

TEST(Draws, ReplicasDrawForThemselves) {
  const Scenario scenario = uniform(Pipeline::chain(2, 4), 0.3);
  const Task task{1, 0, Pass::Forward};
  EXPECT_NE(Draws(scenario, 0).task_time(1, task, false), Draws(scenario, 1).task_time(1, task, false));
  EXPECT_EQ(Draws(scenario, 1).task_time(1, task, false), Draws(scenario, 1).task_time(1, task, false));
}

TEST(Draws, ASizeIsSharedByItsChunksAndByAllPasses) {
  Scenario scenario = uniform(Pipeline::chain(3, 4));
  scenario.sizes = {{{0, 1}, 0.5, {}}};
  const Draws draws(scenario);
  for (Microbatch m = 0; m < 4; ++m) {
    const Duration forward = draws.task_time(1, {m, 0, Pass::Forward}, false);
    EXPECT_NE(forward, 10ms);
    EXPECT_EQ(draws.task_time(1, {m, 1, Pass::Forward}, false), forward);
    EXPECT_EQ(draws.task_time(1, {m, 1, Pass::WeightGrad}, false), forward);
    EXPECT_EQ(draws.task_time(1, {m, 1, Pass::Backward}, true), 2 * forward);
    EXPECT_EQ(draws.task_time(1, {m, 2, Pass::Forward}, false), 10ms);
  }
  EXPECT_NE(draws.task_time(1, {0, 0, Pass::Forward}, false),
            draws.task_time(1, {1, 0, Pass::Forward}, false));
  EXPECT_NE(draws.task_time(1, {0, 0, Pass::Forward}, false),
            draws.task_time(2, {0, 0, Pass::Forward}, false));
}

TEST(Draws, SizesHaveMeanOneAndMayBeGiven) {
  Scenario scenario = uniform(Pipeline::chain(1, 20'000));
  scenario.sizes = {{{0}, 0.5, {}}};
  const Draws draws(scenario);
  double sum = 0;
  for (Microbatch m = 0; m < 20'000; ++m)
    sum += static_cast<double>(draws.task_time(1, {m, 0, Pass::Forward}, false).count()) / 10e6;
  EXPECT_NEAR(sum / 20'000, 1, 0.02);

  Scenario listed = uniform(Pipeline::chain(1, 2));
  listed.sizes = {{{0}, 0, {0.5, 3}}};
  EXPECT_EQ(Draws(listed).task_time(9, {0, 0, Pass::Forward}, false), 5ms);
  EXPECT_EQ(Draws(listed).task_time(9, {1, 0, Pass::Backward}, true), 60ms);
}

TEST(Draws, ALinkTakesItsLatencyAndTheTimeOnTheWire) {
  Scenario scenario(Pipeline::chain(3, 4));
  scenario.links[1] = {20us, 1e9, 3'000'000, {}};
  const Draws draws(scenario);
  EXPECT_EQ(draws.message_delay({{1, 0, 0, Direction::Activation}, 1, 0, {}}), 0ms);
  EXPECT_EQ(draws.message_delay({{1, 0, 1, Direction::Gradient}, 1, 0, {}}), 3ms + 20us);
}

TEST(Draws, LevelsGoByTheMeasuredAverageUnlessANominalOneIsGiven) {
  Scenario scenario(Pipeline::chain(2, 64));
  scenario.links[0].jitter = DelayModel::parse("j3");
  EXPECT_TRUE(scenario.measures_compute());
  const auto total = [&](Duration average) {
    const Draws draws(scenario);
    Duration sum{0};
    for (Microbatch m = 0; m < 64; ++m)
      sum += draws.message_delay({{1, m, 0, Direction::Activation}, 1, 0, average});
    return sum;
  };
  EXPECT_GT(total(40ms), total(20ms));
  scenario.nominal_compute = 30ms;
  EXPECT_FALSE(scenario.measures_compute());
  EXPECT_EQ(total(40ms), total(20ms));
}

TEST(Draws, SkewIsOfTheRankAndMessageAndHasItsMean) {
  for (const Skew::Kind kind : {Skew::Kind::Exponential, Skew::Kind::Uniform}) {
    Scenario scenario(Pipeline::chain(2, 10'000));
    scenario.group.size = 2;
    scenario.skew = {kind, 5ms};
    const Draws draws(scenario);
    double sum = 0;
    for (Microbatch m = 0; m < 10'000; ++m) {
      const MessageId id{1, m, 0, Direction::Activation};
      const Duration first = draws.message_delay({id, 1, 0, {}});
      const Duration second = draws.message_delay({id, 1, 1, {}});
      ASSERT_NE(first, second);
      ASSERT_EQ(draws.least_delay(id), std::max(first, second));
      ASSERT_LE(first, kind == Skew::Kind::Uniform ? 10ms : 1h);
      sum += std::chrono::duration<double, std::milli>(first).count();
    }
    EXPECT_NEAR(sum / 10'000, 5, 0.2);
  }
}

TEST(Draws, WhatWasRecordedTakesThePlaceOfDraws) {
  Scenario scenario = uniform(Pipeline::chain(2, 2));
  scenario.recorded_time = [](std::uint64_t iteration, const Task& task, bool) -> std::optional<Duration> {
    if (iteration == 1 && task.microbatch == 0) return 3ms;
    return std::nullopt;
  };
  scenario.recorded_delay = [](const MessageId& id) -> std::optional<Duration> {
    if (id.direction == Direction::Gradient) return 4ms;
    return std::nullopt;
  };
  const Draws draws(scenario);
  EXPECT_EQ(draws.task_time(1, {0, 0, Pass::Forward}, false), 3ms);
  EXPECT_EQ(draws.task_time(1, {1, 0, Pass::Forward}, false), 10ms);
  EXPECT_EQ(draws.task_time(2, {0, 0, Pass::Forward}, false), 10ms);
  EXPECT_EQ(draws.message_delay({{1, 0, 0, Direction::Gradient}, 0, 0, {}}), 4ms);
  EXPECT_EQ(draws.message_delay({{1, 0, 0, Direction::Activation}, 1, 0, {}}), 0ms);
}

TEST(Simulate, TheThreePartsOfAStageAddUpToTheMakespan) {
  Scenario scenario = uniform(Pipeline::chain(3, 8), 0.3);
  scenario.group = {2, GroupRule::CommonCandidate, 50us};
  scenario.skew.mean = 2ms;
  scenario.replicas = 3;
  const Outcome outcome = run(scenario);
  ASSERT_EQ(outcome.stages.size(), 3U);
  for (const StageReport& stage : outcome.stages) {
    EXPECT_EQ(stage.compute + stage.blocked + stage.agreement, outcome.makespan);
    EXPECT_GT(stage.agreement, 0us);
    EXPECT_GT(stage.blocked, 0ms);
    EXPECT_LE(stage.peak_in_flight, 8U);
  }
}

TEST(Simulate, AnIterationLastsAsLongAsTheSlowestReplica) {
  Scenario scenario = uniform(Pipeline::chain(3, 8), 0.3);
  std::vector<Duration> alone;
  scenario.replicas = 3;
  const Outcome together = simulate(scenario, scenario.pipeline, setups(scenario, scenario.pipeline, "bf"), 1,
                                    [&](const World& world, std::uint32_t replica) {
                                      EXPECT_EQ(replica, alone.size());
                                      Duration end{0};
                                      for (StageId stage = 0; stage < 3; ++stage) {
                                        for (const Done& done : world.ran(stage))
                                          end = std::max(end, done.ended);
                                      }
                                      alone.push_back(end);
                                    });
  ASSERT_EQ(alone.size(), 3U);
  EXPECT_EQ(together.makespan, std::max({alone[0], alone[1], alone[2]}));
  EXPECT_NE(alone[0], alone[1]);
  scenario.replicas = 1;
  EXPECT_EQ(run(scenario).makespan, alone[0]);
  EXPECT_GE(together.makespan, bound(scenario, scenario.pipeline, 1));
}

TEST(Simulate, AnotherIterationIsAnotherDraw) {
  const Scenario scenario = uniform(Pipeline::chain(3, 8), 0.3);
  EXPECT_EQ(run(scenario).makespan, run(scenario).makespan);
  EXPECT_NE(run(scenario).makespan, run(scenario, "bf", 2).makespan);
}

/// Stages measure in a warm-up first, so the levels see compute times from the first message on.
TEST(Simulate, MeasuredJitterIsWarm) {
  Scenario scenario = uniform(Pipeline::chain(2, 30));
  scenario.links[0].jitter = DelayModel::parse("j2");
  for (auto& times : scenario.times) times = DurationModel({50e6, 50e6, 25e6});
  const Duration measured = run(scenario).makespan;
  scenario.nominal_compute = 50ms;
  const auto ratio =
      static_cast<double>(measured.count()) / static_cast<double>(run(scenario).makespan.count());
  EXPECT_NEAR(ratio, 1, 0.01);
}

TEST(Simulate, OverheadsAddToTasksAndHops) {
  Scenario scenario = uniform(Pipeline::chain(2, 1));
  EXPECT_EQ(run(scenario).makespan, 60ms);
  scenario.overhead = {1ms, 100us};
  EXPECT_EQ(run(scenario).makespan, 60ms + 4 * 1ms + 2 * 100us);
  EXPECT_LE(bound(scenario, scenario.pipeline, 1), run(scenario).makespan);
}

TEST(Simulate, LimitsHoldStageByStage) {
  Scenario scenario = uniform(Pipeline::chain(4, 16), 0.5);
  scenario.limits = {5, 4, 3, 2};
  for (Link& link : scenario.links) link.jitter = DelayModel::parse("tail:0.5,30");
  const Outcome outcome = run(scenario);
  for (StageId stage = 0; stage < 4; ++stage)
    EXPECT_LE(outcome.stages[stage].peak_in_flight, scenario.limits[stage]);
}

}  // namespace
}  // namespace sluice::sim
