#include "sluice/sim/sim_executor.hpp"

#include <gtest/gtest.h>

#include "sluice/error.hpp"
#include "tasks.hpp"

namespace sluice::sim {
namespace {

using test::forward;
using test::weight_grad;

class SimExecutorTest : public testing::Test {
 protected:
  Launch launch(const Task& task, Lane lane = Lane::Compute) {
    const Launch made{task, 0, 0, lane, false, false};
    executor.launch(made);
    return made;
  }
  VirtualClock clock;
  Timetable timetable;
  SimExecutor executor{3, clock, timetable,
                       [](const Launch& launch) { return Duration{10 + launch.task.microbatch}; }, 2};
};

TEST_F(SimExecutorTest, ATaskEndsWhenItsTimeHasPassedAndTheTimetableSaysSo) {
  (void)launch(forward(5));
  Done done;
  EXPECT_FALSE(executor.poll(done));
  EXPECT_EQ(timetable.next_time(), Time{15});
  EXPECT_EQ(timetable.pop(), 3U);
  clock.advance_to(Time{15});
  ASSERT_TRUE(executor.poll(done));
  EXPECT_EQ(done.task, forward(5));
  EXPECT_EQ(done.started, Time{0});
  EXPECT_EQ(done.ended, Time{15});
}

TEST_F(SimExecutorTest, ATaskLaunchedAheadStartsWhenTheOneBeforeItEnds) {
  (void)launch(forward(0));
  (void)launch(forward(1));
  EXPECT_EQ(executor.room(Lane::Compute), 0U);
  clock.advance_to(Time{21});
  Done done;
  ASSERT_TRUE(executor.poll(done));
  ASSERT_TRUE(executor.poll(done));
  EXPECT_EQ(done.started, Time{10});
  EXPECT_EQ(done.ended, Time{21});
}

TEST_F(SimExecutorTest, LanesRunBesideEachOther) {
  (void)launch(forward(0));
  (void)launch(weight_grad(0), Lane::WeightGrad);
  EXPECT_EQ(executor.room(Lane::WeightGrad), 1U);
  clock.advance_to(Time{10});
  Done done;
  EXPECT_TRUE(executor.poll(done));
  EXPECT_TRUE(executor.poll(done));
}

TEST_F(SimExecutorTest, ADepthOfZeroIsRefused) {
  EXPECT_THROW(SimExecutor(
                   0, clock, timetable, [](const Launch&) { return Duration{1}; }, 0),
               ConfigError);
}

}  // namespace
}  // namespace sluice::sim
