#include "sluice/sim/sim_executor.hpp"

#include <gtest/gtest.h>

#include <vector>

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

TEST_F(SimExecutorTest, AveragesWhatItRanAndKeepsItIfAsked) {
  std::vector<Done> ran;
  executor.keep(&ran);
  (void)launch(forward(0));
  clock.advance_to(Time{10});
  Done done;
  ASSERT_TRUE(executor.poll(done));
  EXPECT_EQ(executor.compute_average().value(), Duration{1}) << "0.9 * 0 + 0.1 * 10";
  ASSERT_EQ(ran.size(), 1U);
  EXPECT_EQ(ran[0].task, forward(0));
}

/// Two ranks of one device whose tasks take 10 and are noticed 3 later.
class SimDeviceTest : public testing::Test {
 protected:
  void launch(std::uint32_t member, const Task& task) {
    device.launch(member, {task, 0, member, Lane::Compute, false, false});
  }
  VirtualClock clock;
  Timetable timetable;
  SimDevice device{4, 2, clock, timetable, [](const Launch&) { return Duration{10}; }, 2, Duration{3}};
  Done done;
};

TEST_F(SimDeviceTest, ATaskStartsWhenItsLastRankHasLaunchedItAndEndsOnAllAtOnce) {
  launch(0, forward(0));
  EXPECT_TRUE(timetable.empty());
  EXPECT_EQ(device.next_deadline(0), kNever);
  clock.advance_to(Time{5});
  launch(1, forward(0));
  EXPECT_EQ(device.free_from(), Time{15});
  EXPECT_EQ(device.next_deadline(0), Time{18});
  EXPECT_EQ(timetable.pop(), 4U);
  EXPECT_EQ(timetable.pop(), 5U);
  clock.advance_to(Time{17});
  EXPECT_FALSE(device.poll(0, done));
  clock.advance_to(Time{18});
  for (std::uint32_t member = 0; member < 2; ++member) {
    ASSERT_TRUE(device.poll(member, done));
    EXPECT_EQ(done.slot, member) << "slots are the rank's own";
    EXPECT_EQ(done.started, Time{5});
    EXPECT_EQ(done.ended, Time{15});
    EXPECT_FALSE(device.poll(member, done));
  }
  EXPECT_EQ(device.busy(), Duration{10});
  device.begin();
  EXPECT_EQ(device.busy(), Duration{0});
}

TEST_F(SimDeviceTest, ARankMayRunAheadOfTheOthersAsFarAsThereIsRoom) {
  launch(0, forward(0));
  launch(0, forward(1));
  EXPECT_EQ(device.room(0, Lane::Compute), 0U);
  EXPECT_EQ(device.room(1, Lane::Compute), 2U);
  launch(1, forward(0));
  launch(1, forward(1));
  EXPECT_EQ(device.free_from(), Time{20});
}

TEST_F(SimDeviceTest, RanksThatLaunchDifferentTasksNeverMeet) {
  launch(0, forward(0));
  EXPECT_THROW(launch(1, forward(1)), ProtocolError);
}

TEST_F(SimExecutorTest, ADepthOfZeroIsRefused) {
  EXPECT_THROW(SimExecutor(
                   0, clock, timetable, [](const Launch&) { return Duration{1}; }, 0),
               ConfigError);
}

}  // namespace
}  // namespace sluice::sim
