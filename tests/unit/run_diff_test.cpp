#include "sluice/trace/run_diff.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "recorded_world.hpp"
#include "sluice/error.hpp"

namespace sluice::trace {
namespace {

using test::RecordedWorld;

RecordedRun run_of(const char* method, std::uint64_t iterations = 2) {
  return RecordedWorld{Pipeline::chain(3, 6, std::string(method) == "bfw"), method, 32, {}, iterations}
      .record();
}

TEST(RunDiff, ARunDoesNotDifferFromItself) {
  const RunDiff diff = diff_runs(run_of("bf"), run_of("bf"));
  EXPECT_EQ(diff.total_a, diff.total_b);
  ASSERT_EQ(diff.tasks.size(), 10U);
  for (const TaskDifference& each : diff.tasks) EXPECT_EQ(each.difference(), Duration{0});
}

TEST(RunDiff, ThePartsOfEachStageAddUpToTheTotals) {
  const RunDiff diff = diff_runs(run_of("1f1b"), run_of("bfw"));
  EXPECT_GT(diff.total_a, diff.total_b);
  for (const StageTime& each : diff.stages_a) EXPECT_EQ(each.total(), diff.total_a);
  for (const StageTime& each : diff.stages_b) EXPECT_EQ(each.total(), diff.total_b);
}

TEST(RunDiff, OnlyIterationsOfBothCount) {
  const RunDiff diff = diff_runs(run_of("bf", 3), run_of("bf", 2));
  EXPECT_EQ(diff.iterations, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(diff.total_a, diff.total_b);
}

TEST(RunDiff, ALongerTaskComesFirst) {
  const RecordedRun a = run_of("bf");
  RecordedRun b = a;
  const auto last = std::ranges::max_element(b.tasks, {}, &RecordedTask::end);
  last->end += Duration{500};
  const RunDiff diff = diff_runs(a, b, 1);
  ASSERT_EQ(diff.tasks.size(), 1U);
  EXPECT_EQ(diff.tasks[0].task, last->task);
  EXPECT_EQ(diff.tasks[0].iteration, last->iteration);
  EXPECT_EQ(diff.tasks[0].took_b - diff.tasks[0].took_a, Duration{500});
}

TEST(RunDiff, AWholeBackwardStandsForBothParts) {
  const RunDiff diff = diff_runs(run_of("1f1b"), run_of("bfw"), 1000);
  std::size_t backwards = 0;
  for (const TaskDifference& each : diff.tasks) {
    EXPECT_NE(each.task.pass, Pass::WeightGrad);
    if (each.task.pass != Pass::Backward) continue;
    ++backwards;
    EXPECT_EQ(each.took_a, each.took_b);
  }
  EXPECT_EQ(backwards, 2U * 3 * 6);
}

TEST(RunDiff, RefusesOtherPipelinesAndNothingInCommon) {
  const RecordedRun run = run_of("bf");
  EXPECT_THROW((void)diff_runs(run, RecordedWorld{Pipeline::chain(2, 6)}.record()), ConfigError);
  EXPECT_THROW((void)diff_runs(run, RecordedWorld{Pipeline::chain(3, 5)}.record()), ConfigError);
  RecordedRun other = run_of("bf", 1);
  other.iterations[0].iteration.index = 9;
  EXPECT_THROW((void)diff_runs(run, other), ConfigError);
}

}  // namespace
}  // namespace sluice::trace
