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

TEST(Timetable, WhatIsAddedForTheTimeThatIsTakesItsPlaceAmongThoseDue) {
  Timetable timetable;
  for (const std::uint32_t rank : {3U, 7U}) timetable.add(Time{10}, rank);
  timetable.add(Time{11}, 0);
  EXPECT_EQ(timetable.pop(), 3U);
  timetable.add(Time{10}, 300);
  timetable.add(Time{10}, 1);
  timetable.add(Time{10}, 3);
  EXPECT_EQ(timetable.next_time(), Time{10});
  for (const std::uint32_t rank : {1U, 3U, 7U, 300U}) EXPECT_EQ(timetable.pop(), rank);
  EXPECT_EQ(timetable.next_time(), Time{11});
  EXPECT_EQ(timetable.pop(), 0U);
  EXPECT_TRUE(timetable.empty());
}

TEST(Timetable, WhatIsAddedForATimeThatHasPassedComesFirst) {
  Timetable timetable;
  for (const std::uint32_t rank : {3U, 7U}) timetable.add(Time{10}, rank);
  EXPECT_EQ(timetable.pop(), 3U);
  timetable.add(Time{5}, 9);
  EXPECT_EQ(timetable.next_time(), Time{5});
  EXPECT_EQ(timetable.pop(), 9U);
  EXPECT_EQ(timetable.next_time(), Time{10});
  EXPECT_EQ(timetable.pop(), 7U);
  EXPECT_TRUE(timetable.empty());
}

TEST(Timetable, ClearForgetsWhatIsDueToo) {
  Timetable timetable;
  for (const std::uint32_t rank : {3U, 7U}) timetable.add(Time{10}, rank);
  EXPECT_EQ(timetable.pop(), 3U);
  timetable.clear();
  EXPECT_TRUE(timetable.empty());
  timetable.add(Time{10}, 1);
  EXPECT_EQ(timetable.pop(), 1U);
}

TEST(VirtualClock, PassesOnlyWhenTold) {
  VirtualClock clock;
  EXPECT_EQ(clock.now(), Time{0});
  clock.advance_to(Time{7});
  EXPECT_EQ(clock.now(), Time{7});
}

}  // namespace
}  // namespace sluice::sim
