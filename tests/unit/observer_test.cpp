#include "sluice/observer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "hand_rank.hpp"
#include "noted_observer.hpp"
#include "null_seams.hpp"
#include "sluice/dispatcher.hpp"

namespace sluice::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// One stage under observation; the observer is made before the rank, and told from its first iteration on.
struct Observed {
  Observed(Pipeline pipeline, DispatcherConfig config, std::uint32_t depth = 1, std::string_view hint = "bf")
      : rank(std::move(pipeline), observe(config), hint, depth) {
    rank.begin();
  }
  Observed(Pipeline pipeline, DispatcherConfig config, Policy policy)
      : rank(std::move(pipeline), observe(config), std::move(policy)) {
    rank.begin();
  }

  std::vector<std::string> take() { return observer.take(); }
  /// The last thing told, of which waits are the only ones that last.
  std::string last() {
    rank.settle();
    const std::vector<std::string> all = observer.take();
    return all.empty() ? "" : all.back();
  }

  NotedObserver observer;
  HandRank rank;

 private:
  DispatcherConfig observe(DispatcherConfig& config) {
    config.observer = &observer;
    return config;
  }
};

TEST(Observer, IsToldAWholeIterationInOrder) {
  Observed seen(Pipeline::chain(3, 1), stage_config(1, 2));
  EXPECT_THAT(seen.take(), ElementsAre("begin 0", "wait message"));
  seen.rank.activation(0);
  EXPECT_THAT(seen.take(), ElementsAre("arrival activation of edge 0, microbatch 0, iteration 0",
                                       "launch F(chunk 1, microbatch 0)", "wait device"));
  seen.rank.finish();
  EXPECT_THAT(seen.take(), ElementsAre("done F(chunk 1, microbatch 0)", "wait message"));
  seen.rank.gradient(0);
  seen.take();
  seen.rank.finish();
  EXPECT_THAT(seen.take(), ElementsAre("done B(chunk 1, microbatch 0)", "end 0"));
  EXPECT_TRUE(seen.rank.dispatcher.finished());
}

TEST(Observer, IsToldOfAWaitOnceUntilSomethingHappens) {
  Observed seen(Pipeline::chain(3, 1), stage_config(1, 2));
  seen.take();
  seen.rank.dispatcher.progress();
  seen.rank.dispatcher.progress();
  EXPECT_THAT(seen.take(), IsEmpty());
}

TEST(Observer, IsToldTheDecisionAlsoWhenDecisionsAreNotRecorded) {
  DispatcherConfig config = stage_config(1, 1);
  config.record_decisions = false;
  Observed seen(Pipeline::chain(3, 3), config);
  seen.rank.activation(0);
  seen.rank.activation(1);
  seen.rank.activation(2);
  ASSERT_EQ(seen.observer.decisions.size(), 1U);
  seen.rank.finish();
  seen.rank.gradient(0);
  ASSERT_EQ(seen.observer.decisions.size(), 2U);
  const Decision& decision = seen.observer.decisions[1];
  EXPECT_EQ(decision.task, backward(0, 1));
  EXPECT_TRUE(decision.whole);
  EXPECT_NE(decision.slot, kNoSlot);
  EXPECT_EQ(decision.runnable[static_cast<std::size_t>(Pass::Backward)], 1U);
  EXPECT_EQ(decision.held_by_limit, 2U);
  EXPECT_THAT(seen.rank.dispatcher.log().decisions(), IsEmpty());
}

TEST(Observer, TheLogIsTheSameWithAndWithout) {
  DispatcherConfig config = stage_config(1, 2);
  config.record_decisions = true;
  HandRank alone(Pipeline::chain(3, 3), config, "bf");
  alone.begin();
  Observed seen(Pipeline::chain(3, 3), config);
  for (HandRank* rank : {&alone, &seen.rank}) {
    for (Microbatch m = 0; m < 3; ++m) rank->activation(m);
    rank->finish_all();
    rank->gradient(0);
    rank->finish_all();
  }
  const auto expected = alone.dispatcher.log().decisions();
  const auto log = seen.rank.dispatcher.log().decisions();
  ASSERT_EQ(log.size(), expected.size());
  ASSERT_EQ(log.size(), seen.observer.decisions.size());
  for (std::size_t i = 0; i < log.size(); ++i) {
    EXPECT_EQ(log[i].task, expected[i].task);
    EXPECT_EQ(log[i].slot, expected[i].slot);
    EXPECT_EQ(log[i].runnable, expected[i].runnable);
    EXPECT_EQ(log[i].held_by_limit, expected[i].held_by_limit);
  }
}

TEST(WaitsFor, TheLimitWhereAForwardIsHere) {
  Observed seen(Pipeline::chain(3, 2), stage_config(1, 1));
  seen.rank.activation(0);
  seen.rank.activation(1);
  EXPECT_EQ(seen.last(), "wait device");
  seen.rank.finish();
  EXPECT_EQ(seen.last(), "wait limit");
}

TEST(WaitsFor, TheLimitOnASource) {
  Observed seen(Pipeline::chain(2, 3), stage_config(0, 1));
  seen.rank.finish();
  EXPECT_EQ(seen.last(), "wait limit");
}

TEST(WaitsFor, AMessageWhileTheDeviceTakesMore) {
  Observed seen(Pipeline::chain(3, 2), stage_config(1, 2), 2);
  seen.rank.activation(0);
  EXPECT_EQ(seen.last(), "wait message");
}

TEST(WaitsFor, TheDeviceWhenAllIsLaunched) {
  Observed seen(Pipeline::chain(1, 1), stage_config(0, 1), 3);
  EXPECT_EQ(seen.last(), "wait device")
      << "forward and backward are launched, and there is room for one more";
}

TEST(WaitsFor, TheReceiverWhenAllHasRun) {
  Observed seen(Pipeline::chain(2, 1), stage_config(1, 1));
  seen.rank.sends_are_taken = false;
  seen.rank.activation(0, 0);
  seen.rank.finish_all();
  EXPECT_EQ(seen.last(), "wait receiver");
  seen.rank.take_sends();
  EXPECT_EQ(seen.last(), "end 0");
}

TEST(WaitsFor, TheTurnOfAGradientThatCannotBeSplit) {
  Observed seen(Pipeline({{0}, {1, false}, {2}}, {{0, 1}, {1, 2}}, 2, false), stage_config(1, 2));
  seen.rank.activation(0);
  seen.rank.activation(1);
  seen.rank.finish_all();
  seen.rank.gradient(1);
  EXPECT_EQ(seen.last(), "wait order");
}

TEST(WaitsFor, WhatTheNextTaskOfAnOrderLacks) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  const auto policies = Policy::fixed(Schedule::named("gpipe", pipeline), pipeline, {});
  Observed first(pipeline, stage_config(0, 2), policies[0]);
  EXPECT_EQ(first.last(), "wait device");
  first.rank.finish_all();
  EXPECT_EQ(first.last(), "wait message");
  first.rank.gradient(1, 0);
  EXPECT_EQ(first.last(), "wait message") << "the order wants the other gradient first";
  Observed second(pipeline, stage_config(1, 2), policies[1]);
  EXPECT_EQ(second.last(), "wait message");
}

/// A group that never comes to a decision.
class Undecided final : public Agreement {
 public:
  void begin(const Iteration& /*iteration*/, const Arbiter& /*arbiter*/) override {}
  void announce(std::span<const RunnableChange> /*changes*/) override {}
  [[nodiscard]] std::optional<Task> poll(const Arbiter& /*arbiter*/, PassMask /*allowed*/) override {
    return std::nullopt;
  }
};

TEST(WaitsFor, TheGroup) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  NullExecutor executor;
  NullTransport transport(pipeline, 0);
  Undecided agreement;
  StoppedClock clock;
  NotedObserver observer;
  DispatcherConfig config = stage_config(0, 2);
  config.observer = &observer;
  Dispatcher dispatcher(pipeline, config, Policy::readiness(Hint::named("bf", pipeline, 0)),
                        {executor, transport, agreement, clock});
  dispatcher.begin({});
  EXPECT_FALSE(dispatcher.progress());
  EXPECT_THAT(observer.take(), ElementsAre("begin 0", "wait agreement"));
}

}  // namespace
}  // namespace sluice::test
