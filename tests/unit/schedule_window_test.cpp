#include "sluice/schedule_window.hpp"

#include <gtest/gtest.h>

#include "tasks.hpp"

namespace sluice::test {
namespace {

TEST(ScheduleWindow, TheIthForwardMayComeInOnceEnoughBeforeItAreReleased) {
  const StageTasks tasks(Pipeline::chain(1, 4), 0);
  ScheduleWindow window(tasks, 2);
  window.begin(tasks, Tasks{forward(3), forward(1), backward(3), forward(0), forward(2)});
  EXPECT_TRUE(window.admits(3));
  EXPECT_TRUE(window.admits(1));
  EXPECT_FALSE(window.admits(0));
  window.released();
  std::uint32_t index = 99;
  EXPECT_TRUE(window.opened(index));
  EXPECT_EQ(index, 0U);
  EXPECT_TRUE(window.admits(0));
  EXPECT_FALSE(window.admits(2));
}

TEST(ScheduleWindow, NothingOpensPastTheEnd) {
  const StageTasks tasks(Pipeline::chain(1, 2), 0);
  ScheduleWindow window(tasks, 2);
  window.begin(tasks, Tasks{forward(0), forward(1)});
  window.released();
  std::uint32_t index = 99;
  EXPECT_FALSE(window.opened(index));
}

}  // namespace
}  // namespace sluice::test
