#include "sluice/agree/task_set.hpp"

#include <gtest/gtest.h>

#include <array>

#include "sluice/pipeline.hpp"
#include "tasks.hpp"

namespace sluice::agree {
namespace {

using test::backward;
using test::forward;

TEST(TaskSet, HoldsWhatWasPutIn) {
  const Pipeline pipeline = Pipeline::interleaved(2, 2, 30);
  const StageTasks tasks(pipeline, 1);
  TaskSet set(tasks);
  const Task late{29, 3, Pass::WeightGrad};
  set.set(late, true);
  set.set(forward(0, 1), true);
  EXPECT_TRUE(set.contains(late));
  EXPECT_TRUE(set.contains(forward(0, 1)));
  EXPECT_FALSE(set.contains(backward(0, 1)));
  set.set(late, false);
  EXPECT_FALSE(set.contains(late));
  set.clear();
  EXPECT_FALSE(set.contains(forward(0, 1)));
}

TEST(TaskSet, EveryBitNamesItsTask) {
  const Pipeline pipeline = Pipeline::interleaved(2, 2, 30);
  const StageTasks tasks(pipeline, 1);
  for (std::uint32_t pass = 0; pass < kPasses; ++pass) {
    for (std::uint32_t index = 0; index < tasks.size(); ++index) {
      const Task task = tasks.task(static_cast<Pass>(pass), index);
      TaskSet set(tasks);
      set.set(task, true);
      std::size_t word = 0;
      while (set.words()[word] == 0) ++word;
      EXPECT_EQ(set.task(word, static_cast<std::uint32_t>(std::countr_zero(set.words()[word]))), task);
    }
  }
}

TEST(TaskSet, KnowsBitsThatStandForNothing) {
  const Pipeline pipeline = Pipeline::chain(1, 30);
  const TaskSet set{StageTasks(pipeline, 0)};
  ASSERT_EQ(set.words().size(), 2U) << "90 tasks";
  EXPECT_TRUE(set.holds_tasks_only(std::array{~std::uint64_t{0}, (std::uint64_t{1} << 26U) - 1}));
  EXPECT_FALSE(set.holds_tasks_only(std::array{std::uint64_t{0}, std::uint64_t{1} << 26U}));
}

}  // namespace
}  // namespace sluice::agree
