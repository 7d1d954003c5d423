#include "sluice/agree/common_tasks.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "sluice/pipeline.hpp"
#include "tasks.hpp"

namespace sluice::agree {
namespace {

using test::backward;
using test::forward;

class CommonTasksTest : public testing::Test {
 protected:
  void SetUp() override { common.begin(Arbiter(tasks, Hint::named("bf", pipeline, 0))); }
  void on_both(const Task& task) {
    common.set(0, task, true);
    common.set(1, task, true);
  }

  Pipeline pipeline = Pipeline::interleaved(2, 2, 8);
  StageTasks tasks{pipeline, 0};
  CommonTasks common{tasks, 2};
  std::vector<Ask> asks{2, Ask{kAllPasses, false, {}, {}}};
};

TEST_F(CommonTasksTest, OnlyWhatIsRunnableOnAllIsACandidate) {
  EXPECT_EQ(common.candidate(asks), std::nullopt);
  common.set(0, forward(1), true);
  common.set(1, forward(2), true);
  EXPECT_EQ(common.candidate(asks), std::nullopt);
  common.set(1, forward(1), true);
  EXPECT_EQ(common.candidate(asks), forward(1));
  common.set(0, forward(1), false);
  EXPECT_EQ(common.candidate(asks), std::nullopt);
}

TEST_F(CommonTasksTest, SayingATwiceChangesNothing) {
  common.set(0, forward(1), true);
  common.set(0, forward(1), true);
  EXPECT_EQ(common.candidate(asks), std::nullopt);
  common.set(1, forward(1), false);
  common.set(1, forward(1), true);
  EXPECT_EQ(common.candidate(asks), forward(1));
}

TEST_F(CommonTasksTest, OnlyWhatAllAllowIsACandidate) {
  on_both(forward(1));
  on_both(backward(2));
  EXPECT_EQ(common.candidate(asks), backward(2));
  asks[1].allowed = mask_of(Pass::Forward) | mask_of(Pass::WeightGrad);
  EXPECT_EQ(common.candidate(asks), forward(1));
  asks[0].allowed = mask_of(Pass::Backward);
  EXPECT_EQ(common.candidate(asks), std::nullopt);
}

TEST_F(CommonTasksTest, OneMemberInFocusPutsTheGroupInFocus) {
  on_both(backward(2));
  on_both(forward(1));
  asks[1].focusing = true;
  asks[1].focus = forward(1);
  EXPECT_EQ(common.candidate(asks), forward(1));
  asks[1].focus = forward(0);
  EXPECT_EQ(common.candidate(asks), std::nullopt);
  asks[1] = asks[0];
  EXPECT_EQ(common.candidate(asks), backward(2)) << "out of focus again";
}

TEST_F(CommonTasksTest, DecisionsMoveTheRoundOn) {
  for (const Task& task : {forward(0), forward(1), backward(2), backward(3)}) on_both(task);
  for (const Task& task : {backward(2), forward(0), backward(3), forward(1)}) {
    EXPECT_EQ(common.candidate(asks), task);
    common.decided(task);
    EXPECT_TRUE(common.was_decided(task));
  }
}

TEST_F(CommonTasksTest, WhatWasDecidedIsOverWhateverIsSaidOfIt) {
  on_both(forward(0));
  common.decided(forward(0));
  common.set(0, forward(0), false);
  common.set(0, forward(0), true);
  common.set(1, forward(0), true);
  EXPECT_EQ(common.candidate(asks), std::nullopt);
}

TEST_F(CommonTasksTest, TakesAWholeSetAtOnce) {
  TaskSet set(tasks);
  set.set(forward(3), true);
  set.set(backward(7, 2), true);
  common.assign(0, set.words());
  on_both(forward(5));
  EXPECT_EQ(common.candidate(asks), forward(5));
  common.assign(1, set.words());
  EXPECT_EQ(common.candidate(asks), backward(7, 2));
  set.clear();
  common.assign(0, set.words());
  EXPECT_EQ(common.candidate(asks), std::nullopt);
}

TEST_F(CommonTasksTest, BeginForgetsEverything) {
  on_both(forward(0));
  common.decided(forward(1));
  common.begin(Arbiter(tasks, Hint::named("fb", pipeline, 0)));
  EXPECT_FALSE(common.was_decided(forward(1)));
  EXPECT_EQ(common.candidate(asks), std::nullopt);
  on_both(backward(0));
  on_both(forward(1));
  EXPECT_EQ(common.candidate(asks), forward(1)) << "by the new hint";
}

}  // namespace
}  // namespace sluice::agree
