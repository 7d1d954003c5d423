#include "sluice/waiting.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "hand_rank.hpp"
#include "null_seams.hpp"
#include "sluice/dispatcher.hpp"

namespace sluice::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// `F2 message activation edge 0 stage 0 (chunk 0)`, the parts of a wait that a test looks at.
std::string text_of(const Wait& wait) {
  std::string text =
      letter(wait.task.pass) + std::to_string(wait.task.microbatch) + " " + to_string(wait.what);
  if (!wait.far) return text;
  return text + (wait.far->direction == Direction::Activation ? " activation" : " gradient") + " edge " +
         std::to_string(wait.far->edge) + " stage " + std::to_string(wait.far->stage) + " (chunk " +
         std::to_string(wait.far->chunk) + ")";
}

std::vector<std::string> texts_of(const std::vector<Wait>& waits) {
  std::vector<std::string> texts(waits.size());
  std::transform(waits.begin(), waits.end(), texts.begin(), text_of);
  return texts;
}

using Texts = std::vector<std::string>;

/// The middle stage of three with so many microbatches, all forwards of which have been offered up to
/// `offered`.
HandRank middle(Microbatch microbatches, std::uint32_t limit, bool split, Microbatch offered) {
  HandRank rank(Pipeline::chain(3, microbatches, split), stage_config(1, limit), "bf");
  rank.begin();
  for (Microbatch m = 0; m < offered; ++m) rank.activation(m);
  return rank;
}

TEST(Waiting, NamesTheMessagesAndWhomTheyComeFrom) {
  HandRank rank = middle(3, 3, false, 1);
  rank.finish_all();
  const Waiting waiting = rank.dispatcher.waiting();
  EXPECT_EQ(texts_of(waiting.blocked), (Texts{"B0 message gradient edge 1 stage 2 (chunk 2)",
                                              "F1 message activation edge 0 stage 0 (chunk 0)",
                                              "F2 message activation edge 0 stage 0 (chunk 0)"}));
  EXPECT_EQ(texts_of(waiting.ready), Texts{});
  EXPECT_EQ(waiting.rank, 1);
  EXPECT_EQ(waiting.stage, 1);
  EXPECT_EQ(waiting.pairs, 3);
  EXPECT_EQ(waiting.finished, 0);
  EXPECT_EQ(waiting.in_flight, 1);
  EXPECT_EQ(waiting.limit, 3);
  EXPECT_TRUE(waiting.launched.empty());
}

TEST(Waiting, WhatTheLimitBlocksIsNotAMessageThatIsMissing) {
  HandRank rank = middle(3, 2, false, 3);
  rank.finish_all();
  const Waiting waiting = rank.dispatcher.waiting();
  EXPECT_EQ(texts_of(waiting.blocked), (Texts{"B0 message gradient edge 1 stage 2 (chunk 2)",
                                              "B1 message gradient edge 1 stage 2 (chunk 2)",
                                              "F2 limit activation edge 0 stage 0 (chunk 0)"}));
  EXPECT_EQ(waiting.held_by_limit, 1);
}

TEST(Waiting, ASourceWaitsForTheLimit) {
  HandRank rank(Pipeline::chain(2, 3), stage_config(0, 1), "bf");
  rank.begin();
  rank.finish_all();
  EXPECT_EQ(texts_of(rank.dispatcher.waiting().blocked),
            (Texts{"B0 message gradient edge 0 stage 1 (chunk 1)", "F1 limit", "F2 limit"}));
}

TEST(Waiting, AReadyTaskMayWaitForTheDevice) {
  HandRank rank = middle(2, 2, false, 2);
  const Waiting waiting = rank.dispatcher.waiting();
  EXPECT_EQ(texts_of(waiting.ready), Texts{"F1 device"});
  ASSERT_EQ(waiting.launched.size(), 1);
  EXPECT_EQ(waiting.launched[0].tasks, 1);
  EXPECT_EQ(waiting.launched[0].last, forward(0, 1));
}

TEST(Waiting, AWeightGradientWaitsForItsTurn) {
  HandRank rank = middle(2, 2, true, 2);
  rank.finish_all();
  rank.gradient(1);
  rank.finish_all();
  EXPECT_EQ(texts_of(rank.dispatcher.waiting().blocked),
            (Texts{"B0 message gradient edge 1 stage 2 (chunk 2)", "W1 order"}));
}

TEST(Waiting, ReceiversThatTakeNothingAreNamed) {
  HandRank rank = middle(1, 1, false, 1);
  rank.sends_are_taken = false;
  rank.finish_all();
  rank.gradient(0);
  rank.finish_all();
  EXPECT_EQ(texts_of(rank.dispatcher.waiting().blocked),
            Texts{"B0 receiver gradient edge 0 stage 0 (chunk 0)"});
  EXPECT_THAT(rank.dispatcher.waiting_report(),
              HasSubstr("its messages have not been taken by stage 0 (chunk 0)"));
}

TEST(Waiting, AForwardOnlyRunWaitsForItsReceiver) {
  HandRank rank(Pipeline::chain(3, 1), stage_config(1, 1), "bf");
  rank.begin({0, IterationKind::ForwardOnly});
  rank.sends_are_taken = false;
  rank.activation(0);
  rank.finish_all();
  EXPECT_EQ(texts_of(rank.dispatcher.waiting().blocked),
            Texts{"F0 receiver activation edge 1 stage 2 (chunk 2)"});
}

TEST(Waiting, AJoinNamesEveryBranchThatIsMissing) {
  const std::vector<std::uint32_t> encoders = {1, 1};
  HandRank rank(Pipeline::joined(encoders, 1, 1), stage_config(2, 1), "bf");
  rank.begin();
  EXPECT_EQ(texts_of(rank.dispatcher.waiting().blocked),
            (Texts{"F0 message activation edge 0 stage 0 (chunk 0)",
                   "F0 message activation edge 1 stage 1 (chunk 1)"}));
  EXPECT_THAT(rank.dispatcher.waiting_report(),
              HasSubstr("waits for activations from stage 0 (chunk 0), stage 1 (chunk 1)"));
}

TEST(Waiting, InAFixedOrderTheNextTaskIsNamed) {
  const Pipeline pipeline = Pipeline::chain(3, 4);
  std::vector<Policy> policies = Policy::fixed(Schedule::one_f_one_b(pipeline), pipeline, {});
  HandRank rank(pipeline, stage_config(1, 4), std::move(policies[1]));
  rank.begin();
  rank.activation(1);
  const Waiting waiting = rank.dispatcher.waiting();
  EXPECT_EQ(waiting.next_in_order, forward(0, 1));
  EXPECT_EQ(texts_of(waiting.ready), Texts{"F1 order"});
  EXPECT_THAT(to_string(waiting), HasSubstr("; next in order: F(chunk 1, microbatch 0)"));
}

TEST(Waiting, AFinishedRankWaitsForNothing) {
  HandRank rank = middle(1, 1, false, 1);
  rank.finish_all();
  rank.gradient(0);
  rank.finish_all();
  const Waiting waiting = rank.dispatcher.waiting();
  EXPECT_EQ(waiting.finished, 1);
  EXPECT_EQ(texts_of(waiting.blocked), Texts{});
  EXPECT_EQ(texts_of(waiting.ready), Texts{});
}

/// A group that never settles on anything.
class Undecided final : public Agreement {
 public:
  void begin(const Iteration& /*iteration*/, const Arbiter& /*arbiter*/) override {}
  void announce(std::span<const RunnableChange> /*changes*/) override {}
  [[nodiscard]] std::optional<Task> poll(const Arbiter& /*arbiter*/, PassMask /*allowed*/) override {
    return std::nullopt;
  }
};

class SetClock final : public Clock {
 public:
  [[nodiscard]] Time now() const override { return time; }
  Time time{};
};

TEST(Waiting, ATaskMayWaitForItsGroup) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  NullExecutor executor;
  NullTransport transport(pipeline, 0);
  Undecided agreement;
  SetClock clock;
  const DispatcherConfig config = stage_config(0, 2);
  Dispatcher dispatcher(pipeline, config, Policy::readiness(Hint::named("bf", pipeline, 0)),
                        {executor, transport, agreement, clock});
  transport.begin(0);
  dispatcher.begin({});
  (void)dispatcher.progress();
  EXPECT_EQ(texts_of(dispatcher.waiting().ready), Texts{"F0 agreement"});
  EXPECT_THAT(dispatcher.waiting_report(),
              HasSubstr("chunk 0, microbatch 0: waits for its group to agree on it"));
}

TEST(Waiting, TellsHowLongNothingHappenedWhereThatIsKnown) {
  Waiting waiting;
  EXPECT_THAT(to_string(waiting), Not(HasSubstr("nothing happened")));
  waiting.since = 3250ms;
  EXPECT_THAT(to_string(waiting), HasSubstr("nothing happened for 3.2 s"));
}

}  // namespace
}  // namespace sluice::test
