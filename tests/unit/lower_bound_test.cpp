#include "sluice/sim/lower_bound.hpp"

#include <gtest/gtest.h>

#include <array>

namespace sluice::sim {
namespace {

/// f = 10, b = 20 of which w = 10, everywhere.
Realized uniform(Duration delay = Duration{0}) {
  Realized realized;
  realized.task_time = [](const Task& task, bool whole) {
    return Duration{task.pass == Pass::Backward && whole ? 20 : 10};
  };
  realized.message_delay = [delay](const MessageId&) { return delay; };
  return realized;
}

std::int64_t bound(const Pipeline& pipeline, const Realized& realized) {
  return lower_bound(pipeline, realized).count();
}

TEST(LowerBound, OfOneStageIsItsWork) { EXPECT_EQ(bound(Pipeline::chain(1, 5), uniform()), 5 * 30); }

TEST(LowerBound, OfOneMicrobatchIsItsLongestPath) {
  EXPECT_EQ(bound(Pipeline::chain(4, 1), uniform()), 4 * 10 + 4 * 10 + 10);
  EXPECT_EQ(bound(Pipeline::chain(4, 1), uniform(Duration{3})), 4 * 10 + 4 * 10 + 10 + 6 * 3);
}

TEST(LowerBound, IsMetByZBH1WhereAllPassesTakeTheSameTime) {
  EXPECT_EQ(bound(Pipeline::chain(8, 64), uniform()), 7 * 10 + 64 * 30);
}

/// Then the gradients of the last microbatch still have to go back.
TEST(LowerBound, IsMetBy1F1BWhereBackwardsCannotBeSplit) {
  std::vector<ChunkPlacement> chunks;
  std::vector<Edge> edges;
  for (Chunk chunk = 0; chunk < 4; ++chunk) {
    chunks.push_back({chunk, false});
    if (chunk > 0) edges.push_back({static_cast<Chunk>(chunk - 1), chunk});
  }
  EXPECT_EQ(bound(Pipeline(chunks, edges, 16, false), uniform()), (16 + 4 - 1) * 30);
}

TEST(LowerBound, MessagesWithinAStageCostTheNoticeAlone) {
  Realized realized = uniform(Duration{1000});
  EXPECT_EQ(bound(Pipeline::v_shape(1, 1), realized), 2 * 10 + 2 * 10 + 2 * 10);
  realized.notice = Duration{7};
  EXPECT_EQ(bound(Pipeline::v_shape(1, 1), realized), 4 * 10 + 10 + 2 * 7);
  realized.task_time = [](const Task& task, bool) {
    return Duration{task.pass == Pass::WeightGrad ? 0 : 10};
  };
  EXPECT_EQ(bound(Pipeline::v_shape(1, 1), realized), 4 * 10 + 2 * 7);
}

TEST(LowerBound, ADecoderWaitsForTheSlowestEncoder) {
  const std::array<std::uint32_t, 2> depths{1, 3};
  EXPECT_EQ(bound(Pipeline::joined(depths, 1, 10), uniform()), 3 * 10 + 10 * 30);
}

TEST(LowerBound, FollowsTheDrawsOfEveryMicrobatch) {
  Realized realized = uniform();
  realized.iteration = 3;
  realized.message_delay = [](const MessageId& id) {
    EXPECT_EQ(id.iteration, 3U);
    return Duration{id.microbatch == 1 ? 500 : 0};
  };
  EXPECT_EQ(bound(Pipeline::chain(2, 3), realized), 10 + 500 + 10 + 10 + 500 + 10 + 10);
}

TEST(LowerBound, AFasterWholeBackwardCounts) {
  Realized realized = uniform();
  realized.task_time = [](const Task& task, bool whole) {
    return Duration{task.pass == Pass::Backward && whole ? 12 : 10};
  };
  EXPECT_EQ(bound(Pipeline::chain(1, 5), realized), 5 * 22);
}

}  // namespace
}  // namespace sluice::sim
