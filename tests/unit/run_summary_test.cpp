#include "sluice/trace/run_summary.hpp"

#include <gtest/gtest.h>

#include "recorded_world.hpp"

namespace sluice::trace {
namespace {

using test::RecordedWorld;

TEST(Distribution, OfNothingIsZero) { EXPECT_EQ(Distribution::of({}).count, 0U); }

TEST(Distribution, HasNearestRanks) {
  std::vector<Duration> values;
  for (int i = 20; i > 0; --i) values.emplace_back(std::chrono::seconds(i));
  const Distribution of = Distribution::of(values);
  EXPECT_EQ(of.count, 20U);
  EXPECT_DOUBLE_EQ(of.mean_s, 10.5);
  EXPECT_DOUBLE_EQ(of.p50_s, 10);
  EXPECT_DOUBLE_EQ(of.p95_s, 19);
  EXPECT_DOUBLE_EQ(of.max_s, 20);
}

double ns(double seconds) { return seconds * 1e9; }

TEST(StartOverhead, IsWhatTheWorldAdds) {
  const Duration task{30};
  const RecordedRun run = RecordedWorld{Pipeline::chain(3, 8), "bf", 32, {}, 2, {task, Duration{0}}}.record();
  const StartOverhead overhead = start_overhead(run);
  ASSERT_GT(overhead.bound_by_stage.count, 0U);
  EXPECT_NEAR(ns(overhead.bound_by_stage.mean_s), 30, 1e-6);
  EXPECT_NEAR(ns(overhead.bound_by_stage.max_s), 30, 1e-6);
  // A message that has arrived starts its task at once.
  ASSERT_GT(overhead.bound_by_message.count, 0U);
  EXPECT_NEAR(ns(overhead.bound_by_message.max_s), 0, 1e-6);
  EXPECT_NEAR(ns(noticing(run).mean_s), 30, 1e-6);
}

TEST(StartOverhead, WithTheTimesOfMessagesTheHopIsOverhead) {
  const RecordedRun run =
      RecordedWorld{Pipeline::chain(3, 8), "bf", 32, {}, 2, {Duration{30}, Duration{12}}}.record();
  const StartOverhead overhead =
      start_overhead(run, [](const MessageId& id) { return std::optional(RecordedWorld::message_time(id)); });
  ASSERT_GT(overhead.bound_by_message.count, 0U);
  EXPECT_NEAR(ns(overhead.bound_by_message.p50_s), 30 + 12, 1e-6);
}

TEST(EdgeSummaries, OneAnEdgeAndDirection) {
  const RecordedRun run = RecordedWorld{Pipeline::chain(3, 8), "bf"}.record();
  const std::vector<EdgeSummary> edges = edge_summaries(run);
  ASSERT_EQ(edges.size(), 4U);
  for (const EdgeSummary& each : edges) {
    EXPECT_EQ(each.time.count, 8U);
    EXPECT_NEAR(ns(each.time.max_s), 3700, 1e-6);
  }
}

TEST(EdgeSummaries, LeaveOutEdgesInsideAStage) {
  const RecordedRun run = RecordedWorld{Pipeline::v_shape(2, 4), "bf"}.record();
  for (const EdgeSummary& each : edge_summaries(run)) EXPECT_NE(each.edge, 1);
  EXPECT_EQ(edge_summaries(run).size(), 4U);
}

TEST(EdgeSummaries, TheWaitForASlotIsApart) {
  RecordedRun run = RecordedWorld{Pipeline::chain(2, 8), "bf"}.record();
  for (RecordedMessage& each : run.messages) {
    each.accepted += Duration{500};
    each.arrived += Duration{520};
  }
  for (const EdgeSummary& each : edge_summaries(run)) {
    EXPECT_NEAR(ns(each.held.p50_s), 500, 1e-6);
    EXPECT_NEAR(ns(each.time.max_s), 3700 + 20, 1e-6);
  }
}

TEST(ReorderedTasks, NoneInAFixedOrder) {
  const Pipeline pipeline = Pipeline::chain(3, 12);
  for (const std::uint64_t each : reordered_tasks(RecordedWorld{pipeline, "1f1b"}.record()))
    EXPECT_EQ(each, 0U);
  std::uint64_t some = 0;
  for (const std::uint64_t each : reordered_tasks(RecordedWorld{pipeline, "bf"}.record())) some += each;
  EXPECT_GT(some, 0U);
}

}  // namespace
}  // namespace sluice::trace
