#include "sluice/sim/world.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include "sluice/error.hpp"

namespace sluice::sim {
namespace {

constexpr std::int64_t kForward = 10;
constexpr std::int64_t kBackward = 20;  // the whole of it
constexpr std::int64_t kWeightGrad = 10;

Duration fixed_time(const Launch& launch) {
  switch (launch.task.pass) {
    case Pass::Forward:
      return Duration{kForward};
    case Pass::Backward:
      return Duration{launch.whole ? kBackward : kBackward - kWeightGrad};
    default:
      return Duration{kWeightGrad};
  }
}

bool is_schedule(std::string_view method) {
  return std::find(Schedule::names().begin(), Schedule::names().end(), method) != Schedule::names().end();
}

World world_of(const Pipeline& pipeline, std::string_view method, std::uint32_t limit = 32, Rules rules = {},
               Surroundings surroundings = {fixed_time}) {
  std::vector<Policy> policies;
  if (is_schedule(method)) policies = Policy::fixed(Schedule::named(method, pipeline), pipeline, rules);
  std::vector<StageSetup> setups;
  for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
    DispatcherConfig config;
    config.rank = config.stage = stage;
    config.limit = limit;
    config.rules = rules;
    config.record_decisions = true;
    setups.push_back({config, is_schedule(method) ? policies[stage]
                                                  : Policy::readiness(Hint::named(method, pipeline, stage))});
  }
  return {pipeline, std::move(setups), std::move(surroundings)};
}

std::int64_t makespan(const Pipeline& pipeline, std::string_view method, std::uint32_t limit = 32) {
  return world_of(pipeline, method, limit).run({}).count();
}

TEST(ClosedForm, OneFOneBAndGPipeTakeMPlusNMinusOneTimesFPlusB) {
  for (const std::int64_t n : {1, 2, 4, 8}) {
    for (const std::int64_t m : {1, 3, 8, 64}) {
      const Pipeline pipeline = Pipeline::chain(static_cast<std::uint32_t>(n), static_cast<Microbatch>(m));
      const std::int64_t expected = (m + n - 1) * (kForward + kBackward);
      EXPECT_EQ(makespan(pipeline, "1f1b"), expected) << n << " " << m;
      EXPECT_EQ(makespan(pipeline, "gpipe"), expected) << n << " " << m;
    }
  }
}

/// With b = 2 f and w = f, and at least as many microbatches as stages.
TEST(ClosedForm, ZBH1TakesMTimesFPlusBAndNMinusOneTimesF) {
  for (const std::int64_t n : {1, 2, 4, 8}) {
    for (const std::int64_t m : {8, 17, 64}) {
      const Pipeline pipeline =
          Pipeline::chain(static_cast<std::uint32_t>(n), static_cast<Microbatch>(m), true);
      EXPECT_EQ(makespan(pipeline, "zb-h1"), m * (kForward + kBackward) + (n - 1) * kForward)
          << n << " " << m;
    }
  }
}

/// (M + (N-1)/C) (f+b), f and b being a stage's: C chunks' of them.
TEST(ClosedForm, InterleavedDividesTheBubbleByTheNumberOfChunks) {
  for (const std::int64_t n : {1, 2, 4}) {
    for (const std::int64_t c : {1, 2, 3}) {
      for (const std::int64_t m : {n, 4 * n}) {
        const Pipeline pipeline = Pipeline::interleaved(
            static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(c), static_cast<Microbatch>(m));
        EXPECT_EQ(makespan(pipeline, "interleaved"), (m * c + n - 1) * (kForward + kBackward)) << n << c << m;
      }
    }
  }
}

TEST(ClosedForm, WithoutVariabilityBFTakesWhat1F1BDoes) {
  const Pipeline pipeline = Pipeline::chain(8, 64);
  EXPECT_EQ(makespan(pipeline, "bf"), makespan(pipeline, "1f1b"));
  EXPECT_EQ(makespan(pipeline, "bf"), (64 + 8 - 1) * (kForward + kBackward));
}

TEST(ClosedForm, WithoutVariabilityBFWTakesWhatZBH1Does) {
  const Pipeline pipeline = Pipeline::chain(8, 64, true);
  EXPECT_EQ(makespan(pipeline, "bfw"), makespan(pipeline, "zb-h1"));
  EXPECT_EQ(makespan(pipeline, "bfw"), 64 * (kForward + kBackward) + 7 * kForward);
}

TEST(PeakInFlight, IsTheTextbooksForEachSchedule) {
  const Pipeline pipeline = Pipeline::chain(4, 8, true);
  const auto peaks = [&](std::string_view method) {
    World world = world_of(pipeline, method);
    (void)world.run({});
    std::vector<std::uint32_t> found;
    for (StageId stage = 0; stage < 4; ++stage) found.push_back(world.dispatcher(stage).peak_in_flight());
    return found;
  };
  EXPECT_EQ(peaks("1f1b"), (std::vector<std::uint32_t>{4, 3, 2, 1}));
  EXPECT_EQ(peaks("gpipe"), (std::vector<std::uint32_t>{8, 8, 8, 8}));
  EXPECT_EQ(peaks("zb-h1"), (std::vector<std::uint32_t>{4, 4, 4, 4}));
}

TEST(World, RunsIterationAfterIteration) {
  const Pipeline pipeline = Pipeline::chain(3, 4);
  World world = world_of(pipeline, "bf");
  const Duration first = world.run({0, IterationKind::Training});
  const Duration second = world.run({1, IterationKind::ForwardOnly});
  EXPECT_EQ(second.count(), (4 + 3 - 1) * kForward);
  EXPECT_EQ(world.run({2, IterationKind::Training}), first);
  EXPECT_EQ(world.dispatcher(0).log().decisions().size(), 8U + 4U + 8U);
}

TEST(World, CallsTheHookAfterProgress) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  World world = world_of(pipeline, "bf");
  std::size_t calls = 0;
  world.on_progress([&](Dispatcher& dispatcher) { calls += dispatcher.iteration().index == 5 ? 1 : 0; });
  (void)world.run({5, IterationKind::Training});
  EXPECT_GE(calls, 8U);
}

TEST(World, NeedsASetupForEveryStage) {
  EXPECT_THROW(World(Pipeline::chain(2, 4), {}, {fixed_time}), ConfigError);
}

/// Two encoders whose sources run their microbatches in opposite orders fill the decoder's only slot
/// with one it cannot finish; with the reservation rule the same run ends.
TEST(World, AStallSaysWhatEveryRankWaitsFor) {
  const std::array<std::uint32_t, 2> depths{1, 1};
  const Pipeline pipeline = Pipeline::joined(depths, 1, 4);
  const auto crossed = [&](Rules rules) {
    std::vector<StageSetup> setups;
    for (StageId stage = 0; stage < 3; ++stage) {
      std::array<std::vector<Task>, Hint::kClasses> classes;
      for (Microbatch m = 0; m < 4; ++m) {
        for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::WeightGrad}) {
          classes[static_cast<std::size_t>(pass)].push_back({stage == 1 ? 3 - m : m, stage, pass});
        }
      }
      DispatcherConfig config;
      config.rank = config.stage = stage;
      config.limit = 1;
      config.rules = rules;
      setups.push_back({config, Policy::readiness({"crossed", pipeline, stage, RoundRule::Rounds, classes})});
    }
    return World(pipeline, std::move(setups), {fixed_time});
  };
  try {
    (void)crossed({true, true, false}).run({});
    FAIL() << "ended";
  } catch (const StallError& error) {
    EXPECT_THAT(error.what(),
                testing::HasSubstr("chunk 0, microbatch 0: waits for gradients from stage 2 (chunk 2)"));
    EXPECT_THAT(error.what(), testing::HasSubstr("rank 2, iteration 0: 0 of 4"));
  }
  EXPECT_NO_THROW((void)crossed({}).run({}));
}

}  // namespace
}  // namespace sluice::sim
