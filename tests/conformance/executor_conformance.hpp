#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "sluice/error.hpp"
#include "sluice/executor.hpp"

/// What every executor must do, whatever is behind it. A rig makes one:
///
///     static constexpr Ends kEnds;
///     explicit Rig(std::uint32_t depth);
///     Executor& executor();
///     void pass_time();  // until something may have ended
///
/// Each of the first kTasks slots takes a microbatch of chunk 0; its tasks take `shrinking` where the rig can
/// say how long they take.
namespace sluice {

using namespace std::chrono_literals;

/// How the end of a task comes to be known.
enum class Ends { AtDeadlines, Notified, Polled };

inline constexpr Microbatch kTasks = 40;

/// Later tasks are shorter, so that an executor that reordered them would show.
inline Duration shrinking(const Launch& launch) {
  return std::chrono::microseconds(100 - launch.task.microbatch);
}

inline Launch forward(Microbatch microbatch) { return {{microbatch, 0, Pass::Forward}, 0, microbatch}; }

template <typename Rig>
class ExecutorConformance : public ::testing::Test {
 protected:
  static Done wait(Rig& rig) {
    Done done;
    while (!rig.executor().poll(done)) rig.pass_time();
    return done;
  }
};

TYPED_TEST_SUITE_P(ExecutorConformance);

TYPED_TEST_P(ExecutorConformance, IsIdleAtFirst) {
  TypeParam rig(2);
  Done done;
  EXPECT_FALSE(rig.executor().poll(done));
  EXPECT_EQ(rig.executor().next_deadline(), kNever);
  for (const Lane lane : {Lane::Compute, Lane::WeightGrad, Lane::Reduction})
    EXPECT_EQ(rig.executor().room(lane), 2U);
}

TYPED_TEST_P(ExecutorConformance, RefusesADepthOfZero) {
  try {
    const TypeParam rig(0);
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "launch-ahead");
  }
}

TYPED_TEST_P(ExecutorConformance, RoomFallsWithEachLaunchAndComesBackWithEachDone) {
  TypeParam rig(3);
  for (Microbatch m = 0; m < 3; ++m) {
    EXPECT_EQ(rig.executor().room(Lane::Compute), 3 - m);
    rig.executor().launch(forward(m));
  }
  EXPECT_EQ(rig.executor().room(Lane::Compute), 0U);
  for (Microbatch m = 0; m < 3; ++m) {
    this->wait(rig);
    EXPECT_EQ(rig.executor().room(Lane::Compute), m + 1);
  }
}

TYPED_TEST_P(ExecutorConformance, DoneTellsWhatWasLaunched) {
  TypeParam rig(3);
  rig.executor().launch({{5, 0, Pass::Forward}, 2, 7});
  rig.executor().launch({{5, 0, Pass::Backward}, 2, 7, Lane::Compute, true});
  rig.executor().launch({{4, 0, Pass::WeightGrad}, 2, 6});
  const Done first = this->wait(rig);
  EXPECT_EQ(first.task, (Task{5, 0, Pass::Forward}));
  EXPECT_EQ(first.slot, 7U);
  EXPECT_FALSE(first.whole);
  EXPECT_EQ(first.status, Status::Ok);
  const Done second = this->wait(rig);
  EXPECT_EQ(second.task, (Task{5, 0, Pass::Backward}));
  EXPECT_EQ(second.slot, 7U);
  EXPECT_TRUE(second.whole);
  const Done third = this->wait(rig);
  EXPECT_EQ(third.task, (Task{4, 0, Pass::WeightGrad}));
  EXPECT_EQ(third.slot, 6U);
  EXPECT_FALSE(third.whole);
}

/// Order, no loss and no overlap within a lane, always launching as far ahead as there is room.
TYPED_TEST_P(ExecutorConformance, RunsALaneInLaunchOrderWithoutOverlap) {
  for (const std::uint32_t depth : {1U, 2U, 5U}) {
    TypeParam rig(depth);
    Microbatch launched = 0;
    std::vector<Done> dones;
    while (dones.size() < kTasks) {
      while (launched < kTasks && rig.executor().room(Lane::Compute) > 0)
        rig.executor().launch(forward(launched++));
      dones.push_back(this->wait(rig));
    }
    Time before{0};
    for (Microbatch m = 0; m < kTasks; ++m) {
      EXPECT_EQ(dones[m].task.microbatch, m);
      EXPECT_LE(before, dones[m].started);
      EXPECT_LE(dones[m].started, dones[m].ended);
      before = dones[m].ended;
    }
    Done done;
    EXPECT_FALSE(rig.executor().poll(done)) << "nothing runs twice";
    EXPECT_EQ(rig.executor().room(Lane::Compute), depth);
    EXPECT_EQ(rig.executor().next_deadline(), kNever);
  }
}

TYPED_TEST_P(ExecutorConformance, AnnouncesWhenItsTasksEndIfNobodyNotifies) {
  TypeParam rig(2);
  rig.executor().launch(forward(0));
  rig.executor().launch(forward(1));
  if (TypeParam::kEnds == Ends::AtDeadlines) {
    const Time deadline = rig.executor().next_deadline();
    EXPECT_EQ(deadline, Time(100us));
    EXPECT_EQ(this->wait(rig).ended, deadline);
    EXPECT_EQ(rig.executor().next_deadline(), Time(199us));
  } else {
    EXPECT_EQ(rig.executor().next_deadline(), TypeParam::kEnds == Ends::Notified ? kNever : kAnyTime);
  }
}

TYPED_TEST_P(ExecutorConformance, TasksOfSeveralLanesAllEnd) {
  TypeParam rig(3);
  const Lane lanes[] = {Lane::Compute, Lane::WeightGrad, Lane::Reduction};
  for (Microbatch m = 0; m < 3; ++m) {
    ASSERT_GT(rig.executor().room(lanes[m]), 0U);
    rig.executor().launch({{m, 0, Pass::Forward}, 0, m, lanes[m]});
  }
  std::vector<Microbatch> ended;
  while (ended.size() < 3) ended.push_back(this->wait(rig).task.microbatch);
  std::sort(ended.begin(), ended.end());
  EXPECT_EQ(ended, (std::vector<Microbatch>{0, 1, 2}));
}

REGISTER_TYPED_TEST_SUITE_P(ExecutorConformance, IsIdleAtFirst, RefusesADepthOfZero,
                            RoomFallsWithEachLaunchAndComesBackWithEachDone, DoneTellsWhatWasLaunched,
                            RunsALaneInLaunchOrderWithoutOverlap, AnnouncesWhenItsTasksEndIfNobodyNotifies,
                            TasksOfSeveralLanesAllEnd);

}  // namespace sluice
