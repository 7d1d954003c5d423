#include "sluice/host/emulated_executor.hpp"

#include <gtest/gtest.h>

#include <chrono>

#include "sluice/sim/timetable.hpp"

namespace sluice::host {
namespace {

using namespace std::chrono_literals;

Launch task(Microbatch microbatch, Lane lane = Lane::Compute) {
  return {{microbatch, 0, Pass::Forward}, 0, microbatch, lane};
}

class EmulatedExecutorTest : public ::testing::Test {
 protected:
  bool poll() { return executor_.poll(done_); }

  sim::VirtualClock clock_;
  EmulatedExecutor executor_{clock_, [](const Launch& launch) { return (launch.task.microbatch + 1) * 10ms; },
                             2};
  Done done_;
};

TEST_F(EmulatedExecutorTest, ATaskStartsWhenItIsLaunchedHoweverLongTheLaneWasFree) {
  clock_.advance_to(70ms);
  executor_.launch(task(0));
  clock_.advance_to(500ms);
  ASSERT_TRUE(poll());
  EXPECT_EQ(done_.started, Time(70ms));
  EXPECT_EQ(done_.ended, Time(80ms));
}

TEST_F(EmulatedExecutorTest, ATaskEndsAtItsDeadlineAndNotBefore) {
  executor_.launch(task(1));
  EXPECT_EQ(executor_.next_deadline(), Time(20ms));
  clock_.advance_to(20ms - 1ns);
  EXPECT_FALSE(poll());
  clock_.advance_to(20ms);
  EXPECT_TRUE(poll());
}

TEST_F(EmulatedExecutorTest, ATaskLaunchedAheadStartsWhenTheOneBeforeItEnds) {
  executor_.launch(task(0));
  clock_.advance_to(4ms);
  executor_.launch(task(1));
  EXPECT_EQ(executor_.end_of_last(Lane::Compute), Time(30ms));
  clock_.advance_to(40ms);
  ASSERT_TRUE(poll());
  EXPECT_EQ(done_.ended, Time(10ms));
  ASSERT_TRUE(poll());
  EXPECT_EQ(done_.started, Time(10ms));
  EXPECT_EQ(done_.ended, Time(30ms));
}

TEST_F(EmulatedExecutorTest, ATaskLaunchedBehindOneThatHasEndedStartsNow) {
  executor_.launch(task(0));
  clock_.advance_to(15ms);
  executor_.launch(task(0));
  EXPECT_EQ(executor_.end_of_last(Lane::Compute), Time(25ms));
}

TEST_F(EmulatedExecutorTest, LanesRunSideBySide) {
  executor_.launch(task(4));
  executor_.launch(task(0, Lane::WeightGrad));
  EXPECT_EQ(executor_.room(Lane::Compute), 1U);
  EXPECT_EQ(executor_.room(Lane::WeightGrad), 1U);
  EXPECT_EQ(executor_.room(Lane::Reduction), 2U);
  EXPECT_EQ(executor_.next_deadline(), Time(10ms));
  clock_.advance_to(10ms);
  ASSERT_TRUE(poll());
  EXPECT_EQ(done_.task.microbatch, 0U);
  EXPECT_FALSE(poll());
  EXPECT_EQ(executor_.next_deadline(), Time(50ms));
}

TEST_F(EmulatedExecutorTest, ATaskMayTakeNoTime) {
  EmulatedExecutor instant(clock_, [](const Launch&) { return Duration{0}; });
  instant.launch(task(3));
  ASSERT_TRUE(instant.poll(done_));
  EXPECT_EQ(done_.started, done_.ended);
}

TEST(EmulatedExecutorLead, TakesTheNextTaskOnlyWithinTheLead) {
  sim::VirtualClock clock;
  EmulatedExecutor executor(
      clock, [](const Launch&) { return 10ms; }, 3, 2ms);
  EXPECT_EQ(executor.room(Lane::Compute), 3U);
  executor.launch({{0, 0, Pass::Forward}, 0, 0});
  EXPECT_EQ(executor.room(Lane::Compute), 0U);
  EXPECT_EQ(executor.next_deadline(), 8ms);
  clock.advance_to(8ms);
  EXPECT_EQ(executor.room(Lane::Compute), 2U);
  executor.launch({{1, 0, Pass::Forward}, 0, 1});
  EXPECT_EQ(executor.room(Lane::Compute), 0U) << "the lead goes by the task launched last";
  EXPECT_EQ(executor.next_deadline(), 10ms);
}

}  // namespace
}  // namespace sluice::host
