#include "run/recorded_scenario.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "sluice/error.hpp"

namespace sluice::tools {
namespace {

using namespace std::chrono_literals;

constexpr double kShare = 0.25;

/// Runs one task after another.
class Recording {
 public:
  explicit Recording(Microbatch microbatches)
      : run_{"bf", Pipeline::chain(1, microbatches), {4}, Rules{}, 1} {}

  Recording& begin(std::uint64_t index, IterationKind kind = IterationKind::Training) {
    run_.iterations.push_back({{index, kind}, now_, now_});
    return *this;
  }
  Recording& ran(Microbatch microbatch, Pass pass, Duration time, bool whole = false) {
    trace::RecordedIteration& iteration = run_.iterations.back();
    run_.tasks.push_back({{microbatch, 0, pass},
                          iteration.iteration.index,
                          0,
                          whole,
                          kNoSlot,
                          now_,
                          now_ + time,
                          now_ + time});
    iteration.end = now_ += time;
    return *this;
  }
  [[nodiscard]] const trace::RecordedRun& run() const { return run_; }

 private:
  trace::RecordedRun run_;
  Time now_{0};
};

/// One whole backward in iteration 4, one in two parts in iteration 5.
Recording two_iterations() {
  Recording recording(1);
  recording.begin(4).ran(0, Pass::Forward, 1ms).ran(0, Pass::Backward, 8ms, true);
  recording.begin(5).ran(0, Pass::Forward, 3ms).ran(0, Pass::Backward, 2ms).ran(0, Pass::WeightGrad, 6ms);
  return recording;
}

TEST(RecordedScenario, DrawsGoThroughTheIterationsAndAroundAgain) {
  sim::Scenario scenario(Pipeline::chain(1, 1));
  use_recorded_times(scenario, two_iterations().run(), kShare);
  const sim::Draws draws(scenario);
  const Task forward{0, 0, Pass::Forward};
  EXPECT_EQ(draws.task_time(1, forward, false), 1ms);
  EXPECT_EQ(draws.task_time(2, forward, false), 3ms);
  EXPECT_EQ(draws.task_time(3, forward, false), 1ms);
  EXPECT_EQ(draws.task_time(0, forward, false), 3ms) << "the warm-up precedes draw 1";
  EXPECT_EQ(scenario.times[0].forward(), 2ms) << "the mean";
  EXPECT_EQ(scenario.times[0].backward(), 8ms);
}

TEST(RecordedScenario, BackwardsAreJoinedAndDividedByTheRecordedShare) {
  sim::Scenario scenario(Pipeline::chain(1, 1));
  use_recorded_times(scenario, two_iterations().run(), kShare);
  const sim::Draws draws(scenario);
  const Task backward{0, 0, Pass::Backward};
  const Task weight_grad{0, 0, Pass::WeightGrad};
  EXPECT_EQ(draws.task_time(1, backward, true), 8ms);
  EXPECT_EQ(draws.task_time(1, backward, false), 2ms) << "the split one says three quarters";
  EXPECT_EQ(draws.task_time(1, weight_grad, false), 6ms);
  EXPECT_EQ(draws.task_time(2, backward, true), 8ms) << "the sum";
  EXPECT_EQ(draws.task_time(2, backward, false), 2ms);
  EXPECT_EQ(draws.task_time(2, weight_grad, false), 6ms);
}

TEST(RecordedScenario, WithoutASplitBackwardTheGivenShareDivides) {
  Recording recording(1);
  recording.begin(1).ran(0, Pass::Forward, 1ms).ran(0, Pass::Backward, 8ms, true);
  sim::Scenario scenario(Pipeline::chain(1, 1));
  use_recorded_times(scenario, recording.run(), kShare);
  const sim::Draws draws(scenario);
  EXPECT_EQ(draws.task_time(1, {0, 0, Pass::Backward}, false), 6ms);
  EXPECT_EQ(draws.task_time(1, {0, 0, Pass::WeightGrad}, false), 2ms);
}

TEST(RecordedScenario, ForwardOnlyIterationsAreNoDraws) {
  Recording recording(1);
  recording.begin(1).ran(0, Pass::Forward, 1ms).ran(0, Pass::Backward, 2ms, true);
  recording.begin(2, IterationKind::ForwardOnly).ran(0, Pass::Forward, 5ms);
  sim::Scenario scenario(Pipeline::chain(1, 1));
  use_recorded_times(scenario, recording.run(), kShare);
  const sim::Draws draws(scenario);
  EXPECT_EQ(draws.task_time(2, {0, 0, Pass::Forward}, false), 1ms);
  EXPECT_EQ(draws.task_time(2, {0, 0, Pass::Backward}, true), 2ms);
}

TEST(RecordedScenario, WhatDoesNotFitIsRefused) {
  const auto field_of = [](Pipeline pipeline, const Recording& recording) -> std::string {
    sim::Scenario scenario(std::move(pipeline));
    try {
      use_recorded_times(scenario, recording.run(), kShare);
    } catch (const ConfigError& error) {
      return error.field();
    }
    return "accepted";
  };
  EXPECT_EQ(field_of(Pipeline::chain(1, 1), two_iterations()), "accepted");
  EXPECT_EQ(field_of(Pipeline::chain(1, 2), two_iterations()), "pipeline");
  EXPECT_EQ(field_of(Pipeline::chain(2, 1), two_iterations()), "pipeline");
  Recording evaluation(1);
  evaluation.begin(1, IterationKind::ForwardOnly).ran(0, Pass::Forward, 5ms);
  EXPECT_EQ(field_of(Pipeline::chain(1, 1), evaluation), "iterations");
  Recording incomplete(1);
  incomplete.begin(1).ran(0, Pass::Forward, 5ms);
  EXPECT_EQ(field_of(Pipeline::chain(1, 1), incomplete), "tasks");
}

}  // namespace
}  // namespace sluice::tools
