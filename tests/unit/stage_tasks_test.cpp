#include "sluice/stage_tasks.hpp"

#include <gtest/gtest.h>

#include "sluice/error.hpp"
#include "tasks.hpp"

namespace sluice::test {
namespace {

TEST(StageTasks, NumbersPairsByChunkThenMicrobatch) {
  const StageTasks tasks(Pipeline::interleaved(2, 2, 3), 1);  // chunks 1 and 3
  EXPECT_EQ(tasks.size(), 6U);
  EXPECT_EQ(tasks.chunk_at(1), 3U);
  EXPECT_EQ(tasks.index(1, 2), 2U);
  EXPECT_EQ(tasks.index(3, 0), 3U);
  for (std::uint32_t index = 0; index < tasks.size(); ++index) {
    const Task task = tasks.task(Pass::Backward, index);
    EXPECT_EQ(tasks.index(task.chunk, task.microbatch), index);
  }
}

TEST(StageTasks, KnowsWhatIsItsOwn) {
  const StageTasks tasks(Pipeline::interleaved(2, 2, 3), 1);
  EXPECT_EQ(tasks.position(0), StageTasks::kForeign);
  EXPECT_TRUE(tasks.contains(forward(2, 3)));
  EXPECT_FALSE(tasks.contains(forward(2, 2)));
  EXPECT_FALSE(tasks.contains(forward(3, 3)));
  EXPECT_FALSE(tasks.contains(forward(0, 9)));
}

TEST(StageTasks, AStageThatDoesNotExistIsRefused) {
  EXPECT_THROW(StageTasks(Pipeline::chain(2, 1), 2), ConfigError);
}

}  // namespace
}  // namespace sluice::test
