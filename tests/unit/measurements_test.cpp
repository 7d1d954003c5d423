#include "sluice/adapt/measurements.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <vector>

namespace sluice::adapt {
namespace {

class MeasurementsTest : public testing::Test {
 protected:
  void ran(StageId stage, const Task& task, std::int64_t started, std::int64_t ended, bool whole = false) {
    recorders[stage].record(Event::of(EventKind::Ran, Time{ended}, 0, task, whole, started));
  }
  void sent_and_noticed(StageId from, StageId to, const MessageId& id, std::int64_t sent, std::int64_t at) {
    recorders[from].record(Event::of(EventKind::Sent, Time{sent}, id));
    recorders[to].record(Event::of(EventKind::Offered, Time{at}, id));
  }

  const Pipeline pipeline = Pipeline::chain(2, 4, true);
  void measure() {
    const std::array<Recorder*, 2> all{&recorders[0], &recorders[1]};
    measured.add(all);
  }

  std::vector<Recorder> recorders{Recorder(64), Recorder(64)};
  Measurements measured{pipeline};
};

TEST_F(MeasurementsTest, TheFirstTimeIsTheAverageAndLaterOnesMoveItByATenth) {
  ran(0, {0, 0, Pass::Forward}, 100, 200);
  measure();
  EXPECT_EQ(measured.task(0, Pass::Forward), Duration{100});
  recorders[0].clear();
  ran(0, {1, 0, Pass::Forward}, 300, 500);
  measure();
  EXPECT_EQ(measured.task(0, Pass::Forward), Duration{110});
  EXPECT_EQ(measured.task(1, Pass::Forward), Duration{0});
}

TEST_F(MeasurementsTest, AWholeBackwardSaysNothingOfItsParts) {
  ran(0, {0, 0, Pass::Backward}, 0, 70, true);
  measure();
  EXPECT_EQ(measured.task(0, Pass::Backward), Duration{0});
}

TEST_F(MeasurementsTest, IsCompleteOnceEveryPassOfEveryChunkWasSeen) {
  for (const Chunk chunk : {Chunk{0}, Chunk{1}}) {
    for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::WeightGrad}) {
      EXPECT_FALSE(measured.complete());
      ran(chunk, {0, chunk, pass}, 0, 5);
      measure();
    }
  }
  EXPECT_TRUE(measured.complete());
}

TEST_F(MeasurementsTest, AMessageTakesFromItsSendingToItsBeingNoticed) {
  sent_and_noticed(0, 1, {0, 0, 0, Direction::Activation}, 10, 25);
  sent_and_noticed(1, 0, {0, 0, 0, Direction::Gradient}, 40, 47);
  measure();
  EXPECT_EQ(measured.message(0, Direction::Activation), Duration{15});
  EXPECT_EQ(measured.message(0, Direction::Gradient), Duration{7});
}

TEST_F(MeasurementsTest, AMessageWhoseSendingWasLostIsLeftOut) {
  recorders[1].record(Event::of(EventKind::Offered, Time{9}, {0, 0, 0, Direction::Activation}));
  measure();
  EXPECT_EQ(measured.message(0, Direction::Activation), Duration{0});
}

TEST_F(MeasurementsTest, DrawsComeFromTheTimesSeenAndKeepTheTail) {
  for (Microbatch m = 0; m < 4; ++m) {
    const std::int64_t late = m == 2 ? 1000 : 1;
    sent_and_noticed(0, 1, {0, m, 0, Direction::Activation}, 0, late);
  }
  measure();
  std::set<std::int64_t> drawn;
  for (std::uint64_t draw = 0; draw < 64; ++draw) {
    const Duration time = measured.message(0, Direction::Activation, draw);
    EXPECT_EQ(time, measured.message(0, Direction::Activation, draw));
    drawn.insert(time.count());
  }
  EXPECT_EQ(drawn, (std::set<std::int64_t>{1, 1000}));
}

TEST_F(MeasurementsTest, NoticeIsTheTimeFromATasksEndToItsRankSeeingIt) {
  ran(0, {0, 0, Pass::Forward}, 0, 50);
  recorders[0].record(Event::of(EventKind::Noticed, Time{58}, 0, {0, 0, Pass::Forward}, false));
  measure();
  EXPECT_EQ(measured.notice(), Duration{8});
}

TEST_F(MeasurementsTest, DriftIsHeldAgainstTheTimeOfAnAverageTask) {
  for (const Chunk chunk : {Chunk{0}, Chunk{1}}) {
    for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::WeightGrad})
      ran(chunk, {0, chunk, pass}, 0, 100);
  }
  measure();
  const Measurements before = measured;
  EXPECT_EQ(measured.drift_since(before), 0.0);
  for (Recorder& recorder : recorders) recorder.clear();
  ran(1, {1, 1, Pass::Forward}, 0, 700);
  measure();
  EXPECT_NEAR(measured.drift_since(before), 60.0 / 110.0, 1e-9);
}

}  // namespace
}  // namespace sluice::adapt
