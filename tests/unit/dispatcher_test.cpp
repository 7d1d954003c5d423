#include "sluice/dispatcher.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <span>
#include <string>

#include "hand_rank.hpp"
#include "null_seams.hpp"
#include "sluice/error.hpp"

namespace sluice::test {
namespace {

using ::testing::HasSubstr;

constexpr StageId kMiddle = 1;

/// The middle stage of three, one chunk: activations on edge 0, gradients on edge 1. Has run the
/// forwards of its first microbatches.
struct Middle : HandRank {
  Middle(std::uint32_t limit, bool split, std::uint32_t forwards, Rules rules = {},
         std::string_view hint = "bf")
      : HandRank(Pipeline::chain(3, 8, split), stage_config(kMiddle, limit, rules), hint) {
    begin();
    for (Microbatch m = 0; m < forwards; ++m) activation(m, 0);
    finish_all();
    (void)launched();
  }
};

Task f(Microbatch m) { return forward(m, 1); }
Task b(Microbatch m) { return backward(m, 1); }
Task w(Microbatch m) { return weight_grad(m, 1); }

/// Several chunks at the limit finish one microbatch after the other.
const Rules kOneAtATime{.mixed_at_limit = false};

TEST(Readiness, TasksRunInOrderOfArrivalNotOfTheSchedule) {
  Middle rank(8, false, 0);
  rank.activation(3);
  rank.finish();
  rank.activation(1);
  rank.finish();
  rank.gradient(3);
  EXPECT_EQ(rank.launched(), (Tasks{f(3), f(1), b(3)}));
}

TEST(Limit, OneChunkRunsOnlyBackwardsAtTheLimit) {
  Middle rank(2, false, 2);
  rank.activation(2);
  EXPECT_EQ(rank.launched(), Tasks{});
  rank.gradient(0);
  EXPECT_EQ(rank.launched(), (Tasks{b(0)}));
  rank.finish();
  EXPECT_EQ(rank.launched(), (Tasks{f(2)}));
  EXPECT_EQ(rank.dispatcher.peak_in_flight(), 2U);
}

TEST(Limit, AForwardHeldByTheLimitStaysAtTheSender) {
  Middle rank(2, false, 2);
  rank.activation(2);
  EXPECT_EQ(rank.accepted.size(), 2U);
  rank.gradient(0);
  rank.finish();
  EXPECT_EQ(rank.accepted.back(), (MessageId{0, 2, 0, Direction::Activation}));
}

TEST(BFW, AForwardHeldByTheLimitIsNotRunnable) {
  Middle rank(2, true, 2, {}, "bfw");
  rank.activation(2);
  rank.gradient(0);
  rank.finish();  // b(0)
  EXPECT_EQ(rank.launched(), (Tasks{b(0), w(0)}))
      << "the held forward does not keep the weight gradient back";
  const Decision last = rank.dispatcher.log().decisions().back();
  EXPECT_EQ(last.held_by_limit, 1U);
  EXPECT_EQ(last.runnable, (std::array<std::uint32_t, kPasses>{0, 0, 1}));
}

TEST(BFW, RunsTheWeightGradOnlyAfterItsBackward) {
  Middle rank(8, true, 1, {}, "bfw");
  rank.gradient(0);
  EXPECT_EQ(rank.launched(), (Tasks{b(0)}));
  rank.finish();
  EXPECT_EQ(rank.launched(), (Tasks{w(0)}));
  EXPECT_FALSE(rank.launches.back().whole);
}

TEST(SlotIsHeldUntilItsWeightGradRan, AndTheNextForwardWaitsForIt) {
  Middle rank(1, true, 1);
  rank.activation(1);
  rank.gradient(0);
  rank.finish();
  EXPECT_EQ(rank.launched(), (Tasks{b(0), w(0)}));
  rank.finish();
  EXPECT_EQ(rank.launched(), (Tasks{f(1)}));
}

TEST(SlotIsHeldUntilItsWeightGradRan, AndUntilItsMessagesAreTaken) {
  Middle rank(1, false, 1);
  rank.activation(1);
  rank.sends_are_taken = false;
  rank.gradient(0);
  rank.finish();
  EXPECT_EQ(rank.launched(), (Tasks{b(0)}));
  rank.take_sends();
  EXPECT_EQ(rank.launched(), (Tasks{f(1)}));
}

TEST(PaperRules, TheSlotIsFreeAfterTheBackward) {
  Middle rank(1, true, 1, Rules::paper());
  rank.activation(1);
  rank.gradient(0);
  rank.finish();  // b(0)
  EXPECT_EQ(rank.launched(), (Tasks{b(0), f(1)}));
}

TEST(PaperRules, AnyOrderOfAccumulationRunsWhole) {
  Middle rank(8, false, 2, Rules::paper());
  rank.gradient(1);
  EXPECT_EQ(rank.launched(), (Tasks{b(1)}));
  EXPECT_TRUE(rank.launches.back().whole);
}

TEST(OrderedAccumulation, ABackwardOutOfTurnRunsItsInputGradientAtOnceAndItsWeightGradInTurn) {
  Middle rank(8, false, 2);
  rank.gradient(1);
  EXPECT_FALSE(rank.launches.back().whole);
  rank.finish();
  EXPECT_EQ(rank.launched(), (Tasks{b(1)}));
  EXPECT_EQ(rank.sent.back(), (MessageId{0, 1, 0, Direction::Gradient})) << "the gradient is not delayed";
  rank.gradient(0);
  EXPECT_TRUE(rank.launches.back().whole);
  EXPECT_EQ(rank.dispatcher.log().decisions().back().held_by_order, 1U);
  rank.finish();
  EXPECT_EQ(rank.launched(), (Tasks{b(0), w(1)}));
}

TEST(OrderedAccumulation, WeightGradsOfASplitPipelineRunInMicrobatchOrder) {
  Middle rank(8, true, 3, {}, "bfw");
  rank.gradient(2);
  rank.finish();
  rank.gradient(1);
  rank.finish();
  rank.gradient(0);
  EXPECT_EQ(rank.finish_all(), (Tasks{b(0), w(0), w(1), w(2)}));
}

TEST(OrderedAccumulation, AnUnsplittableBackwardWaitsForItsTurn) {
  const Pipeline pipeline({{0}, {1, false}, {2}}, {{0, 1}, {1, 2}}, 8, false);
  HandRank rank(pipeline, stage_config(kMiddle, 8));
  rank.begin();
  rank.activation(0);
  rank.activation(1);
  rank.finish_all();
  rank.gradient(1);
  EXPECT_EQ(rank.launched(), (Tasks{f(0), f(1)}));
  rank.gradient(0);
  EXPECT_EQ(rank.finish_all(), (Tasks{b(0), b(1)}));
  EXPECT_TRUE(rank.launches.back().whole);
}

TEST(Source, TakesItsSlotAtLaunch) {
  HandRank rank(Pipeline::chain(2, 8), stage_config(0, 2));
  rank.begin();
  EXPECT_EQ(rank.launched(), (Tasks{forward(0)}));
  EXPECT_EQ(rank.dispatcher.backpressure().free(), 1U);
  rank.finish();
  EXPECT_EQ(rank.launched(), (Tasks{forward(1)}));
  EXPECT_EQ(rank.dispatcher.backpressure().free(), 0U);
  rank.finish();
  EXPECT_EQ(rank.launched(), Tasks{}) << "at the limit";
}

TEST(Lanes, TheLastChunksBackwardIsReadyOnceItsForwardIsLaunchedOnTheSameLane) {
  HandRank rank(Pipeline::chain(1, 8), stage_config(0, 8), "bf", 2);
  rank.begin();
  EXPECT_EQ(rank.launched(), (Tasks{forward(0), backward(0)}))
      << "launch-ahead: both before the first has ended";
}

TEST(Lanes, OnAnotherLaneTheBackwardWaitsForItsForwardToEnd) {
  DispatcherConfig config = stage_config(0, 1);
  config.lanes = {Lane::Compute, Lane::Reduction, Lane::Reduction};
  HandRank rank(Pipeline::chain(1, 8), config, "bf", 2);
  rank.begin();
  EXPECT_EQ(rank.launched(), (Tasks{forward(0)}));
  rank.finish();
  EXPECT_EQ(rank.launched(), (Tasks{backward(0)}));
}

TEST(Lanes, WeightGradsHaveALaneOfTheirOwnAndStayInOrder) {
  DispatcherConfig config = stage_config(kMiddle, 8);
  config.lanes[2] = Lane::WeightGrad;
  HandRank rank(Pipeline::chain(3, 8, true), config, "bfw");
  rank.begin();
  for (const Microbatch m : {0U, 1U}) rank.activation(m);
  rank.finish_all();
  rank.gradient(0);
  rank.gradient(1);
  rank.finish();  // b(0): its weight gradient starts beside b(1)
  EXPECT_EQ(rank.launched(), (Tasks{f(0), f(1), b(0), b(1), w(0)}));
  rank.finish();
  EXPECT_EQ(rank.launched(), Tasks{}) << "w(0) still accumulates";
  rank.finish(Lane::WeightGrad);
  EXPECT_EQ(rank.launched(), (Tasks{w(1)}));
}

TEST(LaunchAhead, DepthTwoLaunchesOneTaskBeyondTheRunningOne) {
  HandRank rank(Pipeline::chain(2, 8), stage_config(0, 8), "bf", 2);
  rank.begin();
  EXPECT_EQ(rank.launched(), (Tasks{forward(0), forward(1)}));
  rank.finish();
  EXPECT_EQ(rank.launched(), (Tasks{forward(2)}));
}

TEST(Focus, SeveralChunksFinishMicrobatchesOneAtATimeInIndexOrder) {
  HandRank rank(Pipeline::interleaved(1, 2, 4), stage_config(0, 2, kOneAtATime), "f-priority");
  rank.begin();
  const Tasks expected = {forward(0, 0), forward(1, 0), forward(0, 1), backward(0, 1), backward(0, 0)};
  Tasks ran = rank.finish_all();
  EXPECT_EQ(ran.size(), 16U);
  ran.resize(expected.size());
  EXPECT_EQ(ran, expected);
  EXPECT_TRUE(rank.dispatcher.log().decisions()[2].focus);
}

TEST(Focus, DMayPassTheLimitByAtMostC) {
  HandRank rank(Pipeline::interleaved(2, 2, 4), stage_config(0, 2, kOneAtATime),
                "f-priority");  // chunks 0 and 2
  rank.begin();
  rank.finish_all();
  EXPECT_EQ(rank.launched(), (Tasks{forward(0, 0), forward(1, 0)}));
  rank.activation(1, 1);
  EXPECT_EQ(rank.launched(), Tasks{}) << "microbatch 0 is awaited";
  rank.activation(0, 1);
  EXPECT_EQ(rank.launched(), (Tasks{forward(0, 2)}));
  EXPECT_EQ(rank.dispatcher.backpressure().in_flight(), 3U);
  rank.finish_all();
  rank.gradient(0, 2);
  rank.finish_all();
  rank.gradient(0, 0);
  rank.finish_all();
  EXPECT_LE(rank.dispatcher.peak_in_flight(), 4U);
  EXPECT_EQ(rank.dispatcher.slots(), 4U);
}

TEST(MixedAtLimit, SeveralChunksRunWhateverWasAdmitted) {
  HandRank rank(Pipeline::interleaved(2, 2, 4), stage_config(0, 2), "f-priority");  // chunks 0 and 2
  rank.begin();
  rank.finish_all();
  EXPECT_EQ(rank.launched(), (Tasks{forward(0, 0), forward(1, 0), forward(2, 0)})) << "one of four is kept";
  rank.activation(1, 1);
  EXPECT_EQ(rank.launched(), Tasks{}) << "the last credit is for microbatch 0 of chunk 2";
  rank.activation(0, 1);
  EXPECT_EQ(rank.launched(), (Tasks{forward(0, 2)}));
  rank.finish_all();
  rank.gradient(1, 0);
  EXPECT_EQ(rank.launched(), (Tasks{backward(1, 0)})) << "microbatch 0 is not waited for";
  EXPECT_FALSE(rank.dispatcher.log().decisions().back().focus);
}

/// A stage whose only credits are taken by microbatches 0 and 1, a third one offered, and the gradient of 1
/// here when that of 0 has run.
Tasks at_the_limit(Rules rules) {
  Middle rank(2, true, 2, rules, "bfw");
  rank.activation(2);
  rank.gradient(0);
  rank.gradient(1);
  rank.finish_all();
  return rank.launched();
}

TEST(WeightGradMakesRoom, BeforeABackwardWhileAForwardIsHeldByTheLimit) {
  EXPECT_EQ(at_the_limit({}), (Tasks{b(0), w(0), b(1), f(2), w(1)}));
  EXPECT_EQ(at_the_limit({.weight_grad_makes_room = false}), (Tasks{b(0), b(1), w(0), f(2), w(1)}));
}

TEST(WeightGradMakesRoom, NotWhileAForwardIsRunnableOrNoneIsHeld) {
  Middle room(3, true, 2, {}, "bfw");
  room.gradient(0);
  room.gradient(1);
  room.finish();
  EXPECT_EQ(room.launched(), (Tasks{b(0), b(1)}));
  Middle runnable(3, true, 2, {}, "bfw");
  runnable.gradient(0);
  runnable.activation(2);
  runnable.activation(3);
  runnable.finish();
  EXPECT_EQ(runnable.launched(), (Tasks{b(0), f(2)}));
}

TEST(IterationBoundary, MessagesOfTheNextIterationAreHeldUntilItBegins) {
  HandRank rank(Pipeline::chain(3, 1), stage_config(kMiddle, 8));
  rank.begin({4, IterationKind::Training});
  rank.offer({5, 0, 0, Direction::Activation});
  EXPECT_EQ(rank.launched(), Tasks{});
  rank.activation(0);
  rank.finish();
  rank.gradient(0);
  rank.finish();
  EXPECT_TRUE(rank.dispatcher.finished());
  EXPECT_EQ(rank.launched(), (Tasks{f(0), b(0)}));
  rank.begin({5, IterationKind::Training});
  EXPECT_EQ(rank.launched(), (Tasks{f(0)}));
}

TEST(IterationBoundary, AGradientBeforeItsForwardIsRefused) {
  Middle rank(8, false, 1);
  EXPECT_THROW(rank.gradient(5), ProtocolError);
}

TEST(ForwardOnly, RunsForwardsAndFreesTheirSlots) {
  HandRank rank(Pipeline::chain(3, 3), stage_config(kMiddle, 1));
  rank.begin({0, IterationKind::ForwardOnly});
  for (const Microbatch m : {0U, 1U, 2U}) rank.activation(m);
  EXPECT_EQ(rank.finish_all(), (Tasks{f(0), f(1), f(2)}));
  EXPECT_TRUE(rank.dispatcher.finished());
  EXPECT_TRUE(rank.launches.back().forward_only);
}

TEST(ForwardOnly, ALastStageDoesNotRunItsBackward) {
  HandRank rank(Pipeline::chain(1, 2), stage_config(0, 1), "bf", 2);
  rank.begin({0, IterationKind::ForwardOnly});
  EXPECT_EQ(rank.finish_all(), (Tasks{forward(0), forward(1)}));
}

TEST(Failure, ATaskThatFailsIsNamedWithItsRankAndCause) {
  Middle rank(8, false, 0);
  rank.activation(2);
  try {
    rank.fail();
    FAIL() << "accepted";
  } catch (const TaskError& error) {
    EXPECT_STREQ(error.what(), "rank 1, F(chunk 1, microbatch 2): out of paper");
  }
}

TEST(WaitingReport, SaysWhatIsAwaitedAndFromWhom) {
  Middle rank(8, false, 1);
  EXPECT_THAT(rank.dispatcher.waiting_report(),
              HasSubstr("chunk 1, microbatch 0: waits for gradients from stage 2 (chunk 2)"));
}

/// Decides nothing, and is to be looked at by a certain time.
class DueAgreement final : public Agreement {
 public:
  explicit DueAgreement(Time due) : due_(due) {}
  void begin(const Iteration& /*iteration*/, const Arbiter& /*arbiter*/) override {}
  void announce(std::span<const RunnableChange> /*changes*/) override {}
  [[nodiscard]] std::optional<Task> poll(const Arbiter& /*arbiter*/, PassMask /*allowed*/) override {
    return std::nullopt;
  }
  [[nodiscard]] Time next_deadline() const override { return due_; }

 private:
  Time due_;
};

TEST(Deadline, ComesWithTheAgreementsToo) {
  const Pipeline pipeline = Pipeline::chain(3, 2);
  for (const Time due : {kAnyTime, Time{7}, kNever}) {
    NullExecutor executor;
    NullTransport transport(pipeline, kMiddle);
    DueAgreement agreement(due);
    const StoppedClock clock;
    Dispatcher dispatcher(pipeline, stage_config(kMiddle, 2),
                          Policy::readiness(Hint::named("bf", pipeline, kMiddle)),
                          {executor, transport, agreement, clock});
    dispatcher.begin({});
    EXPECT_EQ(dispatcher.next_deadline(), due);
  }
}

}  // namespace
}  // namespace sluice::test
