#include "sluice/sim/timetable.hpp"

#include <gtest/gtest.h>

namespace sluice::sim {
namespace {

TEST(Timetable, ComesInOrderOfTimeThenOfRank) {
  Timetable timetable;
  timetable.add(Time{20}, 0);
  timetable.add(Time{10}, 2);
  timetable.add(Time{10}, 1);
  EXPECT_EQ(timetable.next_time(), Time{10});
  EXPECT_EQ(timetable.pop(), 1U);
  EXPECT_EQ(timetable.pop(), 2U);
  EXPECT_EQ(timetable.next_time(), Time{20});
  EXPECT_EQ(timetable.pop(), 0U);
  EXPECT_TRUE(timetable.empty());
}

TEST(Timetable, ARankDueTwiceAtOnceComesOnce) {
  Timetable timetable;
  timetable.add(Time{10}, 1);
  timetable.add(Time{10}, 1);
  EXPECT_EQ(timetable.pop(), 1U);
  EXPECT_TRUE(timetable.empty());
}

TEST(VirtualClock, PassesOnlyWhenTold) {
  VirtualClock clock;
  EXPECT_EQ(clock.now(), Time{0});
  clock.advance_to(Time{7});
  EXPECT_EQ(clock.now(), Time{7});
}

}  // namespace
}  // namespace sluice::sim
