#include "../../../engine/src/nccl/hint_order.hpp"

#include <gtest/gtest.h>

#include <string>

#include "sluice/pipeline.hpp"
#include "tasks.hpp"

namespace sluice::nccl {

/// GoogleTest prints ranges.
inline void PrintTo(const RankRange& range, std::ostream* out) { *out << range.begin << '-' << range.end; }

namespace {

using test::backward;
using test::forward;
using test::weight_grad;

class HintOrderTest : public ::testing::Test {
 protected:
  void begin(const std::string& hint) { order.begin(Hint::named(hint, pipeline, 0)); }

  Pipeline pipeline = Pipeline::chain(2, 8, true);
  StageTasks tasks{pipeline, 0};
  HintOrder order{tasks};
};

TEST_F(HintOrderTest, NothingIsRunnableAtFirst) {
  begin("bf");
  for (const RankRange& range : order.ranges()) EXPECT_EQ(range.begin, range.end);
  for (const std::uint8_t byte : order.bytes()) EXPECT_EQ(byte, 0);
}

TEST_F(HintOrderTest, ATaskIsTheBitOfItsPassAtItsRank) {
  begin("bf");
  const Hint hint = Hint::named("bf", pipeline, 0);
  for (const Task& task : {forward(3), backward(5), weight_grad(0)}) {
    order.set(task, true);
    const std::uint32_t at = order.offset(hint.class_of(task.pass)) + order.rank(task);
    EXPECT_EQ(order.bytes()[at], mask_of(task.pass));
    order.set(task, false);
    EXPECT_EQ(order.bytes()[at], 0);
  }
}

TEST_F(HintOrderTest, RangesReachFromTheFirstToTheLast) {
  begin("fb");
  order.set(forward(2), true);
  EXPECT_EQ(order.ranges()[0], (RankRange{2, 3}));
  order.set(forward(6), true);
  order.set(backward(7), true);
  EXPECT_EQ(order.ranges()[0], (RankRange{2, 7}));
  EXPECT_EQ(order.ranges()[1], (RankRange{7, 8}));
  order.set(forward(6), false);
  EXPECT_EQ(order.ranges()[0], (RankRange{2, 3}));
}

TEST_F(HintOrderTest, WhatWasDecidedIsOver) {
  begin("fb");
  for (Microbatch m = 0; m < 3; ++m) order.set(forward(m), true);
  order.decided(forward(1));
  EXPECT_EQ(order.ranges()[0], (RankRange{0, 3}));
  order.decided(forward(0));
  EXPECT_EQ(order.ranges()[0], (RankRange{2, 3}));
  order.set(forward(1), true);
  EXPECT_EQ(order.ranges()[0], (RankRange{2, 3})) << "said before its decision was known";
  order.decided(forward(2));
  EXPECT_EQ(order.ranges()[0].begin, order.ranges()[0].end);
  order.set(forward(4), true);
  EXPECT_EQ(order.ranges()[0], (RankRange{4, 5}));
}

TEST_F(HintOrderTest, BeginForgetsAndTakesAnotherHint) {
  begin("fb");
  order.set(forward(2), true);
  order.decided(forward(3));
  const Schedule schedule = Schedule::named("1f1b", pipeline);
  order.begin(Hint::from_schedule(schedule, pipeline, 0));
  EXPECT_EQ(order.size(0), 3 * 8U) << "all tasks are in one class";
  EXPECT_EQ(order.size(1), 0U);
  for (const std::uint8_t byte : order.bytes()) EXPECT_EQ(byte, 0);
  order.set(forward(3), true);
  EXPECT_EQ(order.ranges()[0].end, order.rank(forward(3)) + 1);
}

TEST(RankRanges, OverlapInWhatBothHave) {
  const RankRanges a{{{2, 9}, {0, 4}, {3, 3}}};
  const RankRanges b{{{5, 12}, {4, 8}, {0, 7}}};
  const RankRanges both = overlap(a, b);
  EXPECT_EQ(both[0], (RankRange{5, 9}));
  EXPECT_EQ(both[1].begin, both[1].end);
  EXPECT_EQ(both[2].begin, both[2].end);
  EXPECT_EQ(overlap(b, a), both);
}

}  // namespace
}  // namespace sluice::nccl
