#include "sluice/trace/stage_time.hpp"

#include <gtest/gtest.h>

#include "recorded_world.hpp"

namespace sluice::trace {
namespace {

using test::RecordedWorld;

Duration iterations_of(const RecordedRun& run) {
  Duration sum{0};
  for (const RecordedIteration& each : run.iterations) sum += each.end - each.start;
  return sum;
}

/// A stage with a neighbour on either side, and one iteration from 0 to 100.
class OneStage : public ::testing::Test {
 protected:
  void task(Task task, std::int64_t start, std::int64_t end, std::int64_t noticed = -1) {
    run_.tasks.push_back(
        {task, 1, 1, task.pass == Pass::Backward, 0, Time{start}, Time{end}, Time{std::max(noticed, end)}});
  }
  void message(EdgeId edge, Direction direction, Microbatch microbatch, std::int64_t offered,
               std::int64_t accepted, std::int64_t arrived) {
    run_.messages.push_back(
        {{1, microbatch, edge, direction}, Time{0}, Time{offered}, Time{accepted}, Time{arrived}});
  }
  void activation(Microbatch microbatch, std::int64_t arrived) {
    message(0, Direction::Activation, microbatch, arrived, arrived, arrived);
  }
  void gradient(Microbatch microbatch, std::int64_t arrived) {
    message(1, Direction::Gradient, microbatch, arrived, arrived, arrived);
  }
  StageTime time() {
    const StageTime time = stage_times(run_)[1];
    EXPECT_EQ(time.total(), Duration{100});
    return time;
  }

  static Task f(Microbatch microbatch) { return {microbatch, 1, Pass::Forward}; }
  static Task b(Microbatch microbatch) { return {microbatch, 1, Pass::Backward}; }
  static constexpr std::pair<EdgeId, Direction> kActivations{0, Direction::Activation};
  static constexpr std::pair<EdgeId, Direction> kGradients{1, Direction::Gradient};

  RecordedRun run_{"bf", Pipeline::chain(3, 4), {2, 2, 2}, {}, 1, 0, {{{1}, Time{0}, Time{100}}}};
};

TEST_F(OneStage, WithoutTasksIsIdle) { EXPECT_EQ(time().idle, Duration{100}); }

TEST_F(OneStage, WaitsForTheLastMessageOfTheNextTask) {
  activation(0, 30);
  task(f(0), 30, 40);
  gradient(0, 60);
  task(b(0), 60, 90);
  const StageTime of = time();
  EXPECT_EQ(of.compute, Duration{40});
  EXPECT_EQ(of.messages.at(kActivations), Duration{30});
  EXPECT_EQ(of.messages.at(kGradients), Duration{20});
  EXPECT_EQ(of.waiting_for_messages(), Duration{50});
  EXPECT_EQ(of.idle, Duration{10});
}

TEST_F(OneStage, StartsATaskThatIsReady) {
  activation(0, 20);
  activation(1, 25);
  task(f(0), 23, 40);
  task(f(1), 47, 50);
  EXPECT_EQ(time().start, Duration{3 + 7});
}

TEST_F(OneStage, PassesOverAReadyTaskInAFixedOrder) {
  activation(0, 0);
  activation(1, 10);
  task(f(0), 0, 20);
  gradient(0, 50);
  task(b(0), 50, 70);
  task(f(1), 70, 80);
  EXPECT_EQ(time().order, Duration{30});
}

TEST_F(OneStage, DoesNotPassOverWhatItHasNotNoticed) {
  activation(0, 0);
  activation(1, 10);
  task(f(0), 0, 20, 29);
  gradient(0, 50);
  task(b(0), 50, 70);
  task(f(1), 70, 80);
  EXPECT_EQ(time().order, Duration{21});
  EXPECT_EQ(time().start, Duration{9});
}

TEST_F(OneStage, WaitsForTheLimitWhileAForwardIsKeptOut) {
  activation(0, 0);
  activation(1, 0);
  task(f(0), 0, 10);
  task(f(1), 10, 20);
  message(0, Direction::Activation, 2, 30, 80, 80);
  gradient(0, 50);
  task(b(0), 50, 80);
  task(f(2), 80, 100);
  const StageTime of = time();
  EXPECT_EQ(of.messages.at(kGradients), Duration{10});
  EXPECT_EQ(of.limit, Duration{20});
}

TEST_F(OneStage, WaitsForTheLimitWhereTheForwardIsHereButTheStageFull) {
  run_.rules = Rules::paper();
  for (const Microbatch m : {0, 1, 2}) activation(m, 0);
  task(f(0), 0, 10);
  task(f(1), 10, 20);
  gradient(0, 50);
  task(b(0), 50, 80);
  task(f(2), 80, 100);
  EXPECT_EQ(time().limit, Duration{30});
}

TEST_F(OneStage, AgreesWithItsGroup) {
  activation(0, 20);
  task(f(0), 30, 40);
  run_.agreements.push_back({1, 1, Time{22}, Time{29}});
  run_.agreements.push_back({1, 0, Time{0}, Time{20}});
  const StageTime of = time();
  EXPECT_EQ(of.agreement, Duration{7});
  EXPECT_EQ(of.start, Duration{3});
  EXPECT_EQ(of.messages.at(kActivations), Duration{20});
}

TEST_F(OneStage, TasksThatOverlapCountOnce) {
  activation(0, 0);
  activation(1, 0);
  task(f(0), 0, 30);
  task(f(1), 20, 50);
  EXPECT_EQ(time().compute, Duration{50});
}

TEST(StageTimes, AddUpToTheIterationsUnderEveryMethod) {
  for (const char* method : {"bf", "bfw", "f-priority", "1f1b", "gpipe", "zb-h1"}) {
    const Pipeline pipeline = Pipeline::chain(4, 6, std::string(method) == "bfw");
    const RecordedRun run = RecordedWorld{pipeline, method, 3, {}, 2, {Duration{70}, {}}}.record();
    for (const StageTime& each : stage_times(run)) {
      EXPECT_EQ(each.total(), iterations_of(run)) << method;
      EXPECT_EQ(each.compute, 2 * 6 * (RecordedWorld::kForward + RecordedWorld::kBackward)) << method;
      EXPECT_EQ(each.agreement, Duration{0});
    }
  }
}

TEST(StageTimes, OnlyAFixedOrderPassesOverReadyForwards) {
  const Pipeline pipeline = Pipeline::chain(4, 12);
  Duration fixed{0};
  for (const StageTime& each : stage_times(RecordedWorld{pipeline, "1f1b"}.record())) fixed += each.order;
  EXPECT_GT(fixed, Duration{0});
  // No weight gradient has to wait for its turn.
  const Rules any{false};
  for (const StageTime& each : stage_times(RecordedWorld{pipeline, "bf", 32, any}.record()))
    EXPECT_EQ(each.order, Duration{0});
}

TEST(StageTimes, ATightLimitShows) {
  const Pipeline pipeline = Pipeline::chain(4, 12);
  const auto held = [&](std::uint32_t limit) {
    Duration sum{0};
    for (const StageTime& each : stage_times(RecordedWorld{pipeline, "bf", limit}.record()))
      sum += each.limit;
    return sum;
  };
  EXPECT_GT(held(1), Duration{0});
  EXPECT_EQ(held(12), Duration{0});
}

}  // namespace
}  // namespace sluice::trace
