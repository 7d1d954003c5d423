#include <gtest/gtest.h>

#include <string>

#include "hand_rank.hpp"
#include "sluice/dispatcher.hpp"
#include "sluice/error.hpp"

namespace sluice::test {
namespace {

const Pipeline kOne = Pipeline::chain(1, 2);

Decision decided(const Task& task, bool whole = false, std::uint64_t iteration = 0) {
  Decision decision;
  decision.task = task;
  decision.whole = whole;
  decision.iteration = iteration;
  return decision;
}

std::vector<Decision> whole_log() {
  return {decided(forward(1)), decided(forward(0)), decided(backward(0), true), decided(backward(1), true)};
}

/// Why a log is refused, when it is read or when iteration 0 begins.
std::string refusal(std::vector<Decision> log, IterationKind kind = IterationKind::Training,
                    const Pipeline& pipeline = kOne) {
  try {
    HandRank rank(pipeline, stage_config(0, 4), Policy::replay(std::move(log), pipeline, 0));
    rank.begin({0, kind});
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "replay");
    return error.what();
  }
  return "accepted";
}

TEST(Replay, RunsTheLogExactly) {
  HandRank rank(kOne, stage_config(0, 4), Policy::replay(whole_log(), kOne, 0));
  rank.begin();
  EXPECT_EQ(rank.finish_all(), (Tasks{forward(1), forward(0), backward(0), backward(1)}));
  EXPECT_TRUE(rank.dispatcher.finished());
}

TEST(Replay, KeepsWhatWasWholeAndWhatWasSplit) {
  const std::vector<Decision> log = {decided(forward(0)), decided(forward(1)), decided(backward(1)),
                                     decided(backward(0), true), decided(weight_grad(1))};
  HandRank rank(kOne, stage_config(0, 4), Policy::replay(log, kOne, 0));
  rank.begin();
  EXPECT_EQ(rank.finish_all(), (Tasks{forward(0), forward(1), backward(1), backward(0), weight_grad(1)}));
  EXPECT_FALSE(rank.launches[2].whole);
  EXPECT_TRUE(rank.launches[3].whole);
}

TEST(Replay, AccumulationsOnTwoLanesNeverOverlap) {
  const std::vector<Decision> log = {decided(forward(0)), decided(forward(1)), decided(backward(1)),
                                     decided(backward(0), true), decided(weight_grad(1))};
  DispatcherConfig config = stage_config(0, 4);
  config.lanes[2] = Lane::WeightGrad;
  HandRank rank(kOne, config, Policy::replay(log, kOne, 0));
  rank.begin();
  for (int i = 0; i < 3; ++i) rank.finish();
  EXPECT_EQ(rank.launched().back(), backward(0)) << "the weight gradient waits until it has accumulated";
  rank.finish();
  EXPECT_EQ(rank.launched(), (Tasks{weight_grad(1)}));
}

TEST(ReplayErrors, NameTheFirstMismatch) {
  std::vector<Decision> log = whole_log();
  EXPECT_EQ(refusal(log), "accepted");
  log[2] = decided(backward(1), true);
  EXPECT_EQ(refusal(log), "replay: iteration 0, decision 3: B(chunk 0, microbatch 1) cannot run there");
  log = whole_log();
  std::swap(log[0], log[3]);
  EXPECT_EQ(refusal(log), "replay: iteration 0, decision 0: B(chunk 0, microbatch 1) cannot run there");
  log = whole_log();
  log.pop_back();
  EXPECT_EQ(refusal(log), "replay: iteration 0 does not run all of chunk 0, microbatch 1");
  EXPECT_EQ(refusal({}), "replay: iteration 0 does not run all of chunk 0, microbatch 0");
  log = whole_log();
  log[1] = decided(forward(5));
  EXPECT_EQ(refusal(log), "replay: decision 1: F(chunk 0, microbatch 5) is not a task of stage 0");
}

TEST(ReplayErrors, WholeAndSplitMustAgree) {
  std::vector<Decision> log = whole_log();
  log[3].whole = false;
  EXPECT_EQ(refusal(log),
            "replay: decision 3: B(chunk 0, microbatch 1) is split but its weight gradient is missing");
  log[3].whole = true;
  log.push_back(decided(weight_grad(1)));
  EXPECT_EQ(refusal(log), "replay: decision 4: W(chunk 0, microbatch 1) follows no split backward");
  const Pipeline unsplittable({{0, false}}, {}, 1, false);
  EXPECT_EQ(refusal({decided(forward(0)), decided(backward(0)), decided(weight_grad(0))},
                    IterationKind::Training, unsplittable),
            "replay: decision 1: B(chunk 0, microbatch 0) is split but its chunk cannot be");
}

TEST(ReplayErrors, ALogOfAnotherKindOfIterationIsRefused) {
  EXPECT_EQ(refusal(whole_log(), IterationKind::ForwardOnly),
            "replay: iteration 0, decision 2: B(chunk 0, microbatch 0) cannot run there");
  EXPECT_EQ(refusal({decided(forward(0)), decided(forward(1))}, IterationKind::Training),
            "replay: iteration 0 does not run all of chunk 0, microbatch 0");
}

TEST(FixedMode, WaitsForTheNextTaskOfTheScheduleWhateverElseIsReady) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  const Schedule schedule = Schedule::gpipe(pipeline);
  HandRank rank(pipeline, stage_config(1, 4), Policy::fixed(schedule, pipeline, {})[1]);
  rank.begin();
  rank.activation(1);
  EXPECT_EQ(rank.launched(), Tasks{});
  EXPECT_EQ(rank.accepted.size(), 1U) << "but its input is fetched ahead";
  rank.activation(0);
  EXPECT_EQ(rank.finish_all(), (Tasks{forward(0, 1), forward(1, 1), backward(0, 1), backward(1, 1)}));
}

TEST(FixedMode, NeverBlocksOnASend) {
  const Pipeline pipeline = Pipeline::chain(2, 4);
  HandRank rank(pipeline, stage_config(0, 4), Policy::fixed(Schedule::gpipe(pipeline), pipeline, {})[0]);
  rank.sends_are_taken = false;
  rank.begin();
  EXPECT_EQ(rank.finish_all().size(), 4U);
}

TEST(FixedMode, RunsOnlyTheForwardsOfAForwardOnlyIteration) {
  HandRank rank(kOne, stage_config(0, 4), Policy::fixed(Schedule::one_f_one_b(kOne), kOne, {})[0]);
  rank.begin({0, IterationKind::ForwardOnly});
  EXPECT_EQ(rank.finish_all(), (Tasks{forward(0), forward(1)}));
  EXPECT_TRUE(rank.dispatcher.finished());
}

TEST(FixedMode, AScheduleThatDoesNotFitIsRefused) {
  EXPECT_THROW((void)Policy::fixed(Schedule("mine", {{forward(0)}}), kOne, {}), ConfigError);
}

TEST(Slots, AreTheLimitsOrTheSchedulesPeakIfThatIsMore) {
  const Pipeline pipeline = Pipeline::chain(4, 16, true);
  const auto slots = [&](const Policy& policy, std::uint32_t limit, Rules rules = {}) {
    return policy.slots(pipeline, 0, limit, rules);
  };
  EXPECT_EQ(slots(Policy::readiness(Hint::named("bf", pipeline, 0)), 5), 5U);
  EXPECT_EQ(slots(Policy::fixed(Schedule::gpipe(pipeline), pipeline, {})[0], 5), 16U);
  EXPECT_EQ(slots(Policy::fixed(Schedule::one_f_one_b(pipeline), pipeline, {})[0], 5), 5U);
  EXPECT_EQ(slots(Policy::readiness(Hint::named("bf", pipeline, 0)), 5, Rules::paper()), 16U)
      << "credits come back before the weight gradients";
}

}  // namespace
}  // namespace sluice::test
