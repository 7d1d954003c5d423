#include "sluice/graphs/explain.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/error.hpp"

namespace sluice::graphs {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

CapturedTask task_of(Pass pass, Slot slot, std::uint32_t kernels, std::size_t graph_bytes, Lane lane) {
  CapturedTask task;
  task.key = {1, pass, false, slot};
  task.lane = lane;
  task.nodes.kernels = kernels;
  task.graph_bytes = graph_bytes;
  task.capture = std::chrono::milliseconds(2);
  task.instantiate = std::chrono::milliseconds(1);
  task.verified = true;
  return task;
}

/// Two slots of 1000 bytes, 500 bytes of temporaries in two lanes.
Manifest sample(std::size_t chunks = 1) {
  Manifest manifest{.rank = 1,
                    .device = "device",
                    .slots = 2,
                    .memory = {.saved_per_slot = 1000, .temporary = 250, .total = 2500},
                    .saved_bytes = std::vector<std::uint64_t>(chunks, 10),
                    .saves_outside_slot = std::vector<bool>(chunks, false),
                    .tasks = {}};
  for (const Slot slot : {0U, 1U}) {
    manifest.tasks.push_back(task_of(Pass::Forward, slot, 40, 0, Lane::Compute));
    manifest.tasks.push_back(task_of(Pass::WeightGrad, slot, 20, 100 + slot, Lane::WeightGrad));
  }
  return manifest;
}

TEST(ManifestTotals, SumOverTheTasks) {
  const ManifestTotals sums = totals(sample());
  EXPECT_EQ(sums.graphs, 4U);
  EXPECT_EQ(sums.nodes, 120U);
  EXPECT_EQ(sums.fewest_nodes, 20U);
  EXPECT_EQ(sums.most_nodes, 40U);
  EXPECT_EQ(sums.capture, std::chrono::milliseconds(8));
  EXPECT_EQ(sums.instantiate, std::chrono::milliseconds(4));
  EXPECT_EQ(sums.graph_bytes, 101U);
  EXPECT_EQ(sums.unverified, 0U);
}

TEST(LimitWithin, CountsTheSlotsThatFitBesideTheRest) {
  // 500 bytes of temporaries and 101 of graphs.
  EXPECT_EQ(limit_within(sample(), 600), 0U);
  EXPECT_EQ(limit_within(sample(), 1600), 0U);
  EXPECT_EQ(limit_within(sample(), 1601), 1U);
  EXPECT_EQ(limit_within(sample(), 4601), 4U);
}

TEST(LimitWithin, AStageOfSeveralChunksHasASlotMoreForEach) {
  // A limit below the number of chunks is refused, so that four slots are the least.
  EXPECT_EQ(limit_within(sample(2), 3601), 0U);
  EXPECT_EQ(limit_within(sample(2), 4601), 2U);
  EXPECT_EQ(limit_within(sample(2), 7601), 5U);
}

TEST(LimitWithin, SlotsWithoutMemoryFitInAnyNumber) {
  Manifest manifest = sample();
  manifest.memory = {};
  manifest.tasks.clear();
  EXPECT_EQ(limit_within(manifest, 0), std::nullopt);
  EXPECT_THAT(explain(manifest, 10), HasSubstr("any limit fits"));
}

TEST(LimitWithin, IsRefusedWhereWhatASlotTakesIsNotKnown) {
  Manifest manifest = sample(2);
  EXPECT_EQ(uncounted_memory(manifest), "");
  manifest.saves_outside_slot[1] = true;
  const std::string uncounted = "the memory that 1 of 2 chunks saves outside the slots is not counted";
  EXPECT_EQ(uncounted_memory(manifest), uncounted);
  try {
    static_cast<void>(limit_within(manifest, 7601));
    FAIL() << "gave a limit";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "saves_outside_slot");
    EXPECT_THAT(error.what(), HasSubstr(uncounted));
  }
  EXPECT_THAT(explain(manifest), HasSubstr("\n" + uncounted + "\n"));
  const std::string text = explain(manifest, 7601);
  EXPECT_THAT(text, HasSubstr("in 7.4 KiB: no limit can be told, for " + uncounted));
  EXPECT_THAT(text, Not(HasSubstr("fits")));
}

TEST(Explain, SaysWhatWasCaptured) {
  const std::string text = explain(sample());
  EXPECT_THAT(text, HasSubstr("rank 1 on device: 4 graphs of 120 nodes, 20 to 40 each"));
  EXPECT_THAT(text, HasSubstr("captured in 8.0 ms, instantiated in 4.0 ms"));
  EXPECT_THAT(text, HasSubstr("F of chunk 1"));
  EXPECT_THAT(text, HasSubstr("2 slots of 1000 B"));
  EXPECT_THAT(text, Not(HasSubstr("limit")));
}

TEST(Explain, EstimatesTheLaunchFromTheNodes) {
  const LaunchCost cost{.least_us = 1, .least_node_us = 0.1, .most_us = 2, .most_node_us = 1};
  EXPECT_THAT(explain(sample(), {}, cost), HasSubstr("5.0 to 42.0"));
  EXPECT_THAT(explain(sample(), {}, cost), HasSubstr("3.0 to 22.0"));
}

TEST(Explain, SaysWhichLimitFits) {
  EXPECT_THAT(explain(sample(), 4601), HasSubstr("in 4.5 KiB: a limit of 4 fits"));
  EXPECT_THAT(explain(sample(), 900), HasSubstr("in 900 B: no limit fits"));
}

TEST(Explain, SaysWhatIsNotVerifiedOrNotDeterministic) {
  Manifest manifest = sample();
  manifest.tasks[0].verified = false;
  manifest.tasks[1].verification = {1, 0.125, 0, false};
  const std::string text = explain(manifest);
  EXPECT_THAT(text, HasSubstr("not verified"));
  EXPECT_THAT(text, HasSubstr("differs by 0.125 at most"));
  EXPECT_THAT(text, HasSubstr("1 graphs have kernels whose runs differ"));
}

TEST(Explain, AManifestWithoutTasksIsExplainedToo) {
  Manifest manifest = sample();
  manifest.tasks.clear();
  EXPECT_THAT(explain(manifest, 1 << 20), HasSubstr("0 graphs of 0 nodes"));
}

}  // namespace
}  // namespace sluice::graphs
