#include "sluice/backpressure.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "sluice/error.hpp"
#include "tasks.hpp"

namespace sluice::test {
namespace {

const Pipeline kChain = Pipeline::chain(2, 8);
const Pipeline kLoop = Pipeline::interleaved(2, 2, 8);
const Rules kOneAtATime{.mixed_at_limit = false};

std::string refusal(const Pipeline& pipeline, std::uint32_t limit) {
  try {
    (void)Backpressure(pipeline, 1, limit, {});
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "limit");
    return error.what();
  }
  return "accepted";
}

TEST(Limit, ZeroIsRefused) { EXPECT_EQ(refusal(kChain, 0), "limit: must be at least 1"); }

TEST(Limit, BelowTheNumberOfChunksIsRefused) {
  EXPECT_EQ(refusal(kLoop, 1), "limit: 1 is below the 2 chunks of stage 1");
  EXPECT_EQ(refusal(kLoop, 2), "accepted");
}

TEST(Limit, AStageHasLimitCreditsOrLimitPlusC) {
  EXPECT_EQ(Backpressure(kChain, 0, 3, {}).credits(), 3U);
  EXPECT_EQ(Backpressure(kLoop, 0, 3, {}).credits(), 5U);
}

TEST(Reservation, LeavesAFreeCreditForAChunksOldestUnfinishedMicrobatch) {
  Backpressure limit(kChain, 0, 2, {});
  limit.admitted(0, 5);
  EXPECT_FALSE(limit.admits(0, 1));
  EXPECT_FALSE(limit.open(0));
  EXPECT_TRUE(limit.admits(0, 0));
  limit.admitted(0, 0);
  EXPECT_EQ(limit.free(), 0U);
}

TEST(Reservation, OneCreditOnlyAdmitsTheOldest) {
  Backpressure limit(kChain, 0, 1, {});
  EXPECT_FALSE(limit.admits(0, 1));
  limit.admitted(0, 0);
  EXPECT_FALSE(limit.admits(0, 1));
  limit.launched(forward(0));
  limit.released(0, 0);
  EXPECT_EQ(limit.oldest(0), 1U);
  EXPECT_TRUE(limit.admits(0, 1));
  EXPECT_FALSE(limit.admits(0, 2));
}

TEST(Reservation, CountsEveryChunkOfTheStage) {
  Backpressure limit(kLoop, 0, 2, {});  // four credits
  limit.admitted(0, 3);
  limit.admitted(0, 4);
  EXPECT_FALSE(limit.open(0)) << "two free credits are kept for microbatch 0 of both chunks";
  limit.admitted(0, 0);
  EXPECT_FALSE(limit.admits(0, 1));
  EXPECT_TRUE(limit.admits(1, 0));
}

TEST(Reservation, AnOldestThatIsAlreadyInNeedsNoFurtherCredit) {
  Backpressure limit(kChain, 0, 2, {});
  limit.admitted(0, 0);
  EXPECT_TRUE(limit.admits(0, 1));
  limit.admitted(0, 1);
  limit.launched(forward(0));
  limit.released(0, 0);
  EXPECT_TRUE(limit.open(0)) << "microbatch 1 is the oldest now, and is in";
}

TEST(Reservation, AFinishedChunkNeedsNone) {
  Backpressure limit(Pipeline::chain(1, 2), 0, 2, {});
  for (const Microbatch m : {0U, 1U}) {
    limit.admitted(0, m);
    limit.launched(forward(m));
    limit.released(0, m);
  }
  EXPECT_EQ(limit.oldest(0), 2U);
  EXPECT_EQ(limit.free(), 2U);
}

TEST(Reservation, SwitchedOffAnyMicrobatchTakesTheLastCredit) {
  Backpressure limit(kChain, 0, 1, {true, true, false});
  EXPECT_TRUE(limit.admits(0, 5));
  limit.admitted(0, 5);
  EXPECT_FALSE(limit.admits(0, 0));
}

TEST(Limit, DCountsForwardsUntilTheRelease) {
  Backpressure limit(kChain, 0, 2, {});
  limit.admitted(0, 0);
  limit.launched(forward(0));
  limit.launched(backward(0));
  EXPECT_EQ(limit.in_flight(), 1U);
  limit.released(0, 0);
  EXPECT_EQ(limit.in_flight(), 0U);
  EXPECT_EQ(limit.peak_in_flight(), 1U);
}

TEST(PaperRules, DIsForwardsMinusBackwards) {
  Backpressure limit(kChain, 0, 2, Rules::paper());
  limit.admitted(0, 0);
  limit.launched(forward(0));
  limit.launched(backward(0));
  EXPECT_EQ(limit.in_flight(), 0U);
  limit.released(0, 0);
  EXPECT_EQ(limit.in_flight(), 0U);
}

TEST(PaperRules, DOfAForwardOnlyIterationIsForwardsMinusReleases) {
  Backpressure limit(kChain, 0, 2, Rules::paper());
  limit.begin(IterationKind::ForwardOnly);
  limit.admitted(0, 0);
  limit.launched(forward(0));
  EXPECT_EQ(limit.in_flight(), 1U);
  limit.released(0, 0);
  EXPECT_EQ(limit.in_flight(), 0U);
}

TEST(Share, IsInProportionToTheWayToTheEndOfThePipeline) {
  const auto shares = [](const Pipeline& pipeline, StageId stage, std::uint32_t limit, Rules rules = {}) {
    const Backpressure each(pipeline, stage, limit, rules);
    return std::pair(each.share(0), each.share(1));
  };
  EXPECT_EQ(shares(kLoop, 0, 9), std::pair(6U, 3U));
  EXPECT_EQ(shares(kLoop, 1, 9), std::pair(7U, 2U)) << "3 to 1 of 9";
  EXPECT_EQ(shares(Pipeline::v_shape(4, 8), 0, 9), std::pair(8U, 1U));
  EXPECT_EQ(shares(kLoop, 0, 9, kOneAtATime), std::pair(0U, 0U));
  EXPECT_EQ(shares(kLoop, 0, 9, {.reservation = false}), std::pair(0U, 0U));
}

TEST(Share, IsNotFilledByAnotherChunk) {
  Backpressure limit(kLoop, 0, 6, {});  // eight credits, shares 4 and 2
  for (Microbatch m = 0; m < 6; ++m) {
    EXPECT_TRUE(limit.open(0)) << m;
    limit.admitted(0, m);
  }
  EXPECT_FALSE(limit.open(0));
  EXPECT_TRUE(limit.open(1));
  limit.admitted(1, 0);
  limit.admitted(1, 1);
  EXPECT_EQ(limit.free(), 0U);
}

TEST(Share, IsNotKeptForMicrobatchesThatDoNotExist) {
  Backpressure limit(Pipeline::interleaved(2, 2, 5), 0, 6, {});
  for (Microbatch m = 0; m < 5; ++m) {
    limit.admitted(1, m);
    limit.launched(forward(m, 2));
    limit.released(1, m);
  }
  for (Microbatch m = 0; m < 5; ++m) {
    EXPECT_TRUE(limit.open(0)) << "chunk 2 has finished";
    limit.admitted(0, m);
  }
}

TEST(Share, AnOldestComesInAllTheSame) {
  Backpressure limit(kLoop, 0, 6, {});
  for (Microbatch m = 1; m < 6; ++m) limit.admitted(0, m);
  EXPECT_FALSE(limit.admits(0, 6)) << "one is for microbatch 0, two are chunk 2's";
  EXPECT_TRUE(limit.admits(0, 0));
}

TEST(Focus, IsOffWhereAdmittedWorkMayMixAndOnWhereAdmissionIsNotBounded) {
  const auto focusing = [](Rules rules) {
    Backpressure limit(kLoop, 0, 2, rules);
    for (const Microbatch m : {0U, 1U}) {
      limit.admitted(0, m);
      limit.launched(forward(m, 0));
    }
    return limit.focusing();
  };
  EXPECT_FALSE(focusing({}));
  EXPECT_TRUE(focusing(kOneAtATime));
  EXPECT_TRUE(focusing({.bounded_admission = false}));
  EXPECT_TRUE(focusing(Rules::paper()));
}

TEST(Focus, OneChunkNeverFocuses) {
  Backpressure limit(kChain, 0, 1, kOneAtATime);
  limit.launched(forward(0));
  EXPECT_FALSE(limit.focusing());
}

TEST(Focus, FollowsTheLocalOrderOfTheLowestMicrobatch) {
  Backpressure limit(kLoop, 0, 2, kOneAtATime);  // chunks 0 and 2
  limit.launched(forward(0, 0));
  EXPECT_FALSE(limit.focusing());
  limit.launched(forward(1, 0));
  EXPECT_TRUE(limit.focusing());
  for (const Task& task : {forward(0, 2), backward(0, 2), backward(0, 0)}) {
    EXPECT_EQ(limit.focus(), task);
    limit.launched(task);
  }
  EXPECT_EQ(limit.focus(), forward(1, 2)) << "what microbatch 1 has launched already is passed over";
}

TEST(Focus, OfAForwardOnlyIterationHasNoBackwards) {
  Backpressure limit(kLoop, 0, 2, kOneAtATime);
  limit.begin(IterationKind::ForwardOnly);
  limit.launched(forward(0, 0));
  limit.launched(forward(0, 2));
  EXPECT_EQ(limit.focus(), forward(1, 0));
}

TEST(Focus, IsNothingOnceEveryTaskIsLaunched) {
  Backpressure limit(Pipeline::interleaved(1, 2, 1), 0, 2, kOneAtATime);
  for (const Task& task : {forward(0, 0), forward(0, 1), backward(0, 1), backward(0, 0)})
    limit.launched(task);
  EXPECT_EQ(limit.focus(), std::nullopt);
}

TEST(Backpressure, BeginForgetsEverything) {
  Backpressure limit(kLoop, 0, 2, {});
  limit.admitted(0, 0);
  limit.launched(forward(0, 0));
  limit.begin(IterationKind::Training);
  EXPECT_EQ(limit.free(), limit.credits());
  EXPECT_EQ(limit.in_flight(), 0U);
  EXPECT_EQ(limit.focus(), forward(0, 0));
}

}  // namespace
}  // namespace sluice::test
