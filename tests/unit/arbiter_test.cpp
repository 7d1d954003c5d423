#include "sluice/arbiter.hpp"

#include <gtest/gtest.h>

#include <optional>

#include "tasks.hpp"

namespace sluice::test {
namespace {

constexpr Microbatch kMicrobatches = 8;

Arbiter arbiter_of(const Pipeline& pipeline, std::string_view hint, const Tasks& runnable) {
  Arbiter arbiter(StageTasks(pipeline, 0), Hint::named(hint, pipeline, 0));
  for (const Task& task : runnable) arbiter.insert(task);
  return arbiter;
}

/// Everything in the order it is decided.
Tasks drain(Arbiter& arbiter) {
  Tasks order;
  while (const std::optional<Task> task = arbiter.candidate()) {
    arbiter.decided(*task);
    order.push_back(*task);
  }
  return order;
}

const Pipeline kOne = Pipeline::chain(1, kMicrobatches, true);
const Pipeline kTwo = Pipeline::interleaved(1, 2, kMicrobatches, true);
const Tasks kMixed = {forward(3),  forward(4),  forward(5),    backward(0),
                      backward(1), backward(2), weight_grad(0)};

TEST(Rounds, EachRoundTakesOneBackwardThenOneForward) {
  Arbiter arbiter = arbiter_of(kOne, "bf", kMixed);
  EXPECT_EQ(drain(arbiter), (Tasks{backward(0), forward(3), backward(1), forward(4), backward(2), forward(5),
                                   weight_grad(0)}));
}

TEST(Rounds, FBTakesOneForwardThenOneBackward) {
  Arbiter arbiter = arbiter_of(kOne, "fb", kMixed);
  EXPECT_EQ(drain(arbiter), (Tasks{forward(3), backward(0), forward(4), backward(1), forward(5), backward(2),
                                   weight_grad(0)}));
}

TEST(Rounds, ARoundWithoutABackwardTakesOnlyAForward) {
  Arbiter arbiter = arbiter_of(kOne, "bf", {forward(3), forward(4)});
  arbiter.decided(*arbiter.candidate());
  arbiter.insert(backward(0));
  EXPECT_EQ(arbiter.candidate(), backward(0)) << "the next round begins with a backward";
}

TEST(Rounds, ARoundWithoutAForwardTakesOnlyABackward) {
  Arbiter arbiter = arbiter_of(kOne, "bf", {backward(0), backward(1)});
  EXPECT_EQ(drain(arbiter), (Tasks{backward(0), backward(1)}));
}

TEST(Rounds, AnEmptyPollDoesNotAdvanceTheRound) {
  Arbiter arbiter = arbiter_of(kOne, "bf", {backward(0)});
  arbiter.decided(backward(0));
  for (int polls = 0; polls < 3; ++polls) EXPECT_EQ(arbiter.candidate(), std::nullopt);
  arbiter.insert(backward(1));
  arbiter.insert(forward(3));
  EXPECT_EQ(arbiter.candidate(), forward(3)) << "the forward's turn is still to come";
}

TEST(Rounds, AskingChangesNothing) {
  Arbiter arbiter = arbiter_of(kOne, "bf", kMixed);
  for (int polls = 0; polls < 3; ++polls) EXPECT_EQ(arbiter.candidate(), backward(0));
}

TEST(Rounds, EveryIterationBeginsWithANewRound) {
  Arbiter arbiter = arbiter_of(kOne, "bf", {backward(0)});
  arbiter.decided(backward(0));
  arbiter.begin();
  arbiter.insert(forward(0));
  arbiter.insert(backward(1));
  EXPECT_EQ(arbiter.candidate(), backward(1));
  EXPECT_EQ(arbiter.runnable(Pass::Backward), 1U);
}

TEST(BFW, RunsOneWeightGradWhenNeitherBackwardNorForwardIsRunnable) {
  Arbiter arbiter = arbiter_of(kOne, "bfw", {weight_grad(0), weight_grad(1), forward(3)});
  EXPECT_EQ(arbiter.candidate(), forward(3));
  arbiter.decided(forward(3));
  EXPECT_EQ(arbiter.candidate(), weight_grad(0));
}

TEST(BFW, AfterAWeightGradTheNextRoundStarts) {
  Arbiter arbiter = arbiter_of(kOne, "bfw", {backward(1), weight_grad(0)});
  arbiter.decided(backward(1));
  arbiter.decided(*arbiter.candidate());
  arbiter.insert(forward(3));
  arbiter.insert(backward(2));
  EXPECT_EQ(arbiter.candidate(), backward(2));
}

TEST(Priorities, BackwardsComeFirstWhileAnyIsRunnable) {
  Arbiter arbiter = arbiter_of(kOne, "b-priority", kMixed);
  EXPECT_EQ(drain(arbiter), (Tasks{backward(0), backward(1), backward(2), forward(3), forward(4), forward(5),
                                   weight_grad(0)}));
}

TEST(Priorities, ForwardsComeFirstWhileAnyIsRunnable) {
  Arbiter arbiter = arbiter_of(kOne, "f-priority", kMixed);
  EXPECT_EQ(drain(arbiter), (Tasks{forward(3), forward(4), forward(5), backward(0), backward(1), backward(2),
                                   weight_grad(0)}));
}

TEST(Ranking, ForwardsPreferTheLowerChunkBackwardsTheHigherTiesTheLowerMicrobatch) {
  Arbiter arbiter = arbiter_of(
      kTwo, "bf",
      {forward(0, 1), forward(5, 0), forward(2, 0), backward(0, 0), backward(3, 1), backward(1, 1)});
  EXPECT_EQ(drain(arbiter), (Tasks{backward(1, 1), forward(2, 0), backward(3, 1), forward(5, 0),
                                   backward(0, 0), forward(0, 1)}));
}

TEST(FromSchedule, RunnableTasksRunInTheSchedulesOrder) {
  const Schedule schedule = Schedule::zb_h1(kOne);
  Arbiter arbiter(StageTasks(kOne, 0), Hint::from_schedule(schedule, kOne, 0));
  for (const Task& task : {weight_grad(0), backward(2), forward(1), backward(0)}) arbiter.insert(task);
  EXPECT_EQ(drain(arbiter), (Tasks{backward(0), weight_grad(0), forward(1), backward(2)}));
}

TEST(Focus, OnlyTheFocusTaskMayRun) {
  Arbiter arbiter = arbiter_of(kTwo, "bf", {forward(1, 0), backward(2, 1), forward(0, 1)});
  arbiter.focus_on(forward(0, 1));
  EXPECT_EQ(arbiter.candidate(), forward(0, 1));
  arbiter.focus_on(backward(0, 1));
  EXPECT_EQ(arbiter.candidate(), std::nullopt) << "it is awaited, not skipped";
  arbiter.clear_focus();
  EXPECT_EQ(arbiter.candidate(), backward(2, 1));
}

TEST(Focus, WeightGradMayRunWhileTheFocusTaskIsAwaited) {
  Arbiter arbiter = arbiter_of(kTwo, "bf", {weight_grad(0, 1), forward(1, 0)});
  arbiter.focus_on(backward(0, 0));
  EXPECT_EQ(arbiter.candidate(), weight_grad(0, 1));
  arbiter.insert(backward(0, 0));
  EXPECT_EQ(arbiter.candidate(), backward(0, 0));
}

TEST(Focus, WithoutAFocusTaskOnlyWeightGradsRun) {
  Arbiter arbiter = arbiter_of(kTwo, "bf", {weight_grad(0, 1), forward(1, 0)});
  arbiter.focus_on(std::nullopt);
  EXPECT_EQ(arbiter.candidate(), weight_grad(0, 1));
}

TEST(Lanes, OnlyPassesWhoseLaneHasRoomAreConsidered) {
  const Arbiter arbiter = arbiter_of(kOne, "bf", kMixed);
  EXPECT_EQ(arbiter.candidate(mask_of(Pass::Forward)), forward(3));
  EXPECT_EQ(arbiter.candidate(mask_of(Pass::WeightGrad)), weight_grad(0));
  EXPECT_EQ(arbiter.candidate(0), std::nullopt);
}

TEST(Lanes, AWeightGradOnALaneOfItsOwnTakesNoTurn) {
  Arbiter arbiter(StageTasks(kOne, 0), Hint::named("bf", kOne, 0),
                  mask_of(Pass::Forward) | mask_of(Pass::Backward));
  for (const Task& task : {forward(3), backward(0), backward(1), weight_grad(0)}) arbiter.insert(task);
  arbiter.decided(backward(0));
  arbiter.decided(weight_grad(0));
  EXPECT_EQ(arbiter.candidate(mask_of(Pass::Forward) | mask_of(Pass::Backward)), forward(3));
}

TEST(Lanes, AFullLaneDoesNotBlockAClassThatMixesPasses) {
  Arbiter arbiter(StageTasks(kOne, 0), Hint::from_schedule(Schedule::zb_h1(kOne), kOne, 0));
  for (const Task& task : {forward(0), backward(2), weight_grad(5)}) arbiter.insert(task);
  EXPECT_EQ(arbiter.candidate(mask_of(Pass::WeightGrad)), weight_grad(5));
}

TEST(Arbiter, InsertingOrErasingAgainChangesNothing) {
  Arbiter arbiter = arbiter_of(kOne, "bf", {forward(3), forward(3)});
  EXPECT_EQ(arbiter.runnable(Pass::Forward), 1U);
  arbiter.erase(forward(3));
  arbiter.erase(forward(3));
  EXPECT_EQ(arbiter.runnable(Pass::Forward), 0U);
  EXPECT_FALSE(arbiter.contains(forward(3)));
}

}  // namespace
}  // namespace sluice::test
