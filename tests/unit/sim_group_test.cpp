#include "sluice/sim/sim_group.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "sluice/pipeline.hpp"
#include "sluice/sim/world.hpp"
#include "tasks.hpp"

namespace sluice::sim {
namespace {

using namespace std::chrono_literals;
using test::backward;
using test::forward;

/// Two ranks of stage 0 by hand, each with an arbiter of its own.
class SimGroupTest : public testing::TestWithParam<GroupRule> {
 protected:
  void SetUp() override { make(GetParam()); }

  void make(GroupRule rule) {
    group = std::make_unique<SimGroup>(tasks, 2, rule, 5ns, 0, clock, timetable);
    begin();
  }
  void begin() {
    for (std::uint32_t member = 0; member < 2; ++member) {
      arbiters[member].begin();
      group->endpoint(member).begin({}, arbiters[member]);
    }
  }
  void runnable(std::uint32_t member, const Task& task, bool is = true) {
    is ? arbiters[member].insert(task) : arbiters[member].erase(task);
    const RunnableChange change{task, is};
    group->endpoint(member).announce({&change, 1});
  }
  std::optional<Task> poll(std::uint32_t member) {
    const auto task = group->endpoint(member).poll(arbiters[member], kAllPasses);
    if (task) arbiters[member].decided(*task);
    return task;
  }
  void expect_decided(const Task& task) {
    clock.advance_to(clock.now() + 5ns);
    EXPECT_EQ(poll(0), task);
    EXPECT_EQ(poll(1), task);
  }

  Pipeline pipeline = Pipeline::chain(2, 8);
  StageTasks tasks{pipeline, 0};
  std::array<Arbiter, 2> arbiters{Arbiter(tasks, Hint::named("bf", pipeline, 0)),
                                  Arbiter(tasks, Hint::named("bf", pipeline, 0))};
  VirtualClock clock;
  Timetable timetable;
  std::unique_ptr<SimGroup> group;
};

INSTANTIATE_TEST_SUITE_P(Rules, SimGroupTest,
                         testing::Values(GroupRule::CommonCandidate, GroupRule::FirstPick),
                         [](const auto& rule) {
                           return rule.param == GroupRule::CommonCandidate ? "CommonCandidate" : "FirstPick";
                         });

TEST_P(SimGroupTest, NothingIsDecidedBeforeEveryRankHasAsked) {
  runnable(0, forward(3));
  runnable(1, forward(3));
  EXPECT_EQ(poll(0), std::nullopt);
  clock.advance_to(100ns);
  EXPECT_EQ(poll(0), std::nullopt);
}

TEST_P(SimGroupTest, ADecisionTakesItsLatencyAndRingsTheRanks) {
  runnable(0, forward(3));
  runnable(1, forward(3));
  EXPECT_EQ(poll(0), std::nullopt);
  EXPECT_EQ(poll(1), std::nullopt);
  EXPECT_EQ(timetable.next_time(), 0ns) << "opening an attempt rings the other ranks";
  while (timetable.next_time() == 0ns) timetable.pop();
  EXPECT_EQ(timetable.next_time(), 5ns);
  clock.advance_to(4ns);
  EXPECT_EQ(poll(0), std::nullopt);
  clock.advance_to(5ns);
  EXPECT_EQ(poll(0), forward(3));
  EXPECT_EQ(poll(0), std::nullopt);
  EXPECT_EQ(poll(1), forward(3));
  EXPECT_EQ(group->agreeing(), 5ns);
  EXPECT_EQ(group->deferred(), 0U);
}

TEST_P(SimGroupTest, ATaskThatOneRankDoesNotHaveDoesNotRun) {
  runnable(0, forward(3));
  EXPECT_EQ(poll(0), std::nullopt);
  EXPECT_EQ(poll(1), std::nullopt);
  clock.advance_to(50ns);
  EXPECT_EQ(poll(0), std::nullopt);
  runnable(1, forward(3));
  EXPECT_EQ(poll(1), std::nullopt);
  EXPECT_EQ(poll(0), std::nullopt);
  expect_decided(forward(3));
}

TEST_P(SimGroupTest, WhatCeasedToBeRunnableIsNotDecided) {
  runnable(0, forward(3));
  runnable(1, forward(3));
  runnable(1, forward(3), false);
  EXPECT_EQ(poll(0), std::nullopt);
  EXPECT_EQ(poll(1), std::nullopt);
  clock.advance_to(5ns);
  EXPECT_EQ(poll(0), std::nullopt);
  EXPECT_EQ(poll(1), std::nullopt);
}

/// Both have F(4); their first picks differ.
TEST_P(SimGroupTest, OnlyThePublishedRuleDefersWhereFirstPicksDiffer) {
  runnable(0, forward(2));
  runnable(0, forward(4));
  runnable(1, forward(4));
  EXPECT_EQ(poll(0), std::nullopt);
  EXPECT_EQ(poll(1), std::nullopt);
  if (GetParam() == GroupRule::CommonCandidate) {
    expect_decided(forward(4));
    EXPECT_EQ(group->deferred(), 0U);
    return;
  }
  EXPECT_EQ(group->deferred(), 1U);
  clock.advance_to(20ns);
  EXPECT_EQ(poll(0), std::nullopt);
  EXPECT_EQ(poll(1), std::nullopt);
  EXPECT_EQ(group->deferred(), 1U) << "nothing has changed since";
  runnable(1, forward(2));
  EXPECT_EQ(poll(1), std::nullopt);
  EXPECT_EQ(poll(0), std::nullopt) << "joins, changed or not";
  expect_decided(forward(2));
  EXPECT_EQ(group->agreeing(), 25ns) << "since both had something to run";
}

TEST_P(SimGroupTest, RoundsAdvanceWithDecisionsAlone) {
  for (std::uint32_t member = 0; member < 2; ++member) {
    for (const Task& task : {forward(0), forward(1), backward(2), backward(3)}) runnable(member, task);
  }
  for (const Task& task : {backward(2), forward(0), backward(3), forward(1)}) {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(poll(0), std::nullopt);
    EXPECT_EQ(poll(1), std::nullopt);
    expect_decided(task);
  }
}

TEST_P(SimGroupTest, BeginForgetsEverything) {
  runnable(0, forward(3));
  runnable(1, forward(3));
  EXPECT_EQ(poll(0), std::nullopt);
  EXPECT_EQ(poll(1), std::nullopt);
  begin();
  clock.advance_to(100ns);
  EXPECT_EQ(poll(0), std::nullopt);
  EXPECT_EQ(poll(1), std::nullopt);
  EXPECT_EQ(group->agreeing(), 0ns);
}

std::vector<StageSetup> setups_of(const Pipeline& pipeline, const std::string& method, const Rules& rules) {
  std::vector<StageSetup> setups;
  std::vector<Policy> fixed;
  if (method == "1f1b") fixed = Policy::fixed(Schedule::one_f_one_b(pipeline), pipeline, rules);
  for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
    DispatcherConfig config;
    config.rank = config.stage = stage;
    config.rules = rules;
    setups.push_back(
        {config, fixed.empty() ? Policy::readiness(Hint::named(method, pipeline, stage)) : fixed[stage]});
  }
  return setups;
}

/// Rank 1 of each group sees every message `late` later.
Surroundings skewed(std::uint32_t size, GroupRule rule, Duration latency, Duration late) {
  Surroundings surroundings;
  surroundings.task_time = [](const Launch& launch) {
    return Duration{launch.task.pass == Pass::Backward && launch.whole ? 20 : 10};
  };
  surroundings.message_delay = [late](const Transit& transit) { return transit.member * late; };
  surroundings.group = {size, rule, latency};
  return surroundings;
}

std::int64_t makespan(const std::string& method, const Surroundings& surroundings) {
  const Pipeline pipeline = Pipeline::chain(4, 16, method == "bfw");
  World world(pipeline, setups_of(pipeline, method, Rules::paper()), surroundings);
  return world.run({}).count();
}

TEST(GroupedWorld, WithoutSkewAndLatencyAGroupIsOneRank) {
  for (const std::string method : {"1f1b", "bf", "fb", "bfw"}) {
    for (const GroupRule rule : {GroupRule::CommonCandidate, GroupRule::FirstPick})
      EXPECT_EQ(makespan(method, skewed(3, rule, 0ns, 0ns)), makespan(method, skewed(1, rule, 0ns, 0ns)));
  }
}

TEST(GroupedWorld, AgreeingWhileTheDeviceComputesCostsNothing) {
  const Pipeline pipeline = Pipeline::chain(1, 10);
  Surroundings surroundings = skewed(2, GroupRule::CommonCandidate, 3ns, 0ns);
  surroundings.depth = 2;
  World world(pipeline, setups_of(pipeline, "bf", {}), surroundings);
  EXPECT_EQ(world.run({}).count(), 3 + 10 * (10 + 20)) << "only the first task waits";
  EXPECT_EQ(world.report(0).agreement.count(), 3);
  EXPECT_EQ(world.report(0).blocked.count(), 0);
}

/// A chain without work in reserve: every task of the last stage waits for an agreement.
TEST(GroupedWorld, AgreementCostsItsLatencyForEveryTaskAndIsAccountedFor) {
  const Pipeline pipeline = Pipeline::chain(1, 10);
  World world(pipeline, setups_of(pipeline, "bf", {}), skewed(2, GroupRule::CommonCandidate, 3ns, 0ns));
  EXPECT_EQ(world.run({}).count(), 10 * (10 + 20) + 20 * 3);
  const StageReport report = world.report(0);
  EXPECT_EQ(report.compute.count(), 300);
  EXPECT_EQ(report.agreement.count(), 60);
  EXPECT_EQ(report.blocked.count(), 0);
}

TEST(GroupedWorld, AFixedOrderNeedsNoAgreementAndRunsInLockstep) {
  EXPECT_EQ(makespan("1f1b", skewed(2, GroupRule::CommonCandidate, 100ns, 0ns)),
            makespan("1f1b", skewed(1, GroupRule::CommonCandidate, 0ns, 0ns)));
  Surroundings all_late = skewed(1, GroupRule::CommonCandidate, 0ns, 0ns);
  all_late.message_delay = [](const Transit&) { return 7ns; };
  EXPECT_EQ(makespan("1f1b", skewed(2, GroupRule::CommonCandidate, 0ns, 7ns)), makespan("1f1b", all_late))
      << "every hand-over waits for the rank that sees it last";
}

}  // namespace
}  // namespace sluice::sim
