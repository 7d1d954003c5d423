#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "list_schedule.hpp"
#include "sluice/error.hpp"
#include "sluice/schedule.hpp"
#include "tasks.hpp"

/// The generators against what is published of them; what executes here knows no dispatcher.
namespace sluice::test {
namespace {

/// Time of a chunk's passes, the backward split.
struct PassTimes {
  std::int64_t forward = 1;
  std::int64_t input_grad = 1;
  std::int64_t weight_grad = 1;

  [[nodiscard]] std::int64_t all() const { return forward + input_grad + weight_grad; }
};

Tasks order_of(const Schedule& schedule, StageId stage) {
  return {schedule.order(stage).begin(), schedule.order(stage).end()};
}

std::int64_t makespan(const Pipeline& pipeline, const Schedule& schedule, const PassTimes& times) {
  std::vector<Task> split;
  for (StageId stage = 0; stage < schedule.stages(); ++stage) {
    for (const Task& task : schedule.order(stage)) {
      if (task.pass == Pass::WeightGrad) split.push_back({task.microbatch, task.chunk, Pass::Backward});
    }
  }
  std::sort(split.begin(), split.end());
  const auto time_of = [&](const Task& task) {
    if (task.pass == Pass::Forward) return Duration{times.forward};
    if (task.pass == Pass::WeightGrad) return Duration{times.weight_grad};
    const bool whole = !std::binary_search(split.begin(), split.end(), task);
    return Duration{times.input_grad + (whole ? times.weight_grad : 0)};
  };
  Time end{0};
  for (const auto& [task, interval] :
       list_schedule(pipeline, schedule, time_of, [](const MessageId&) { return Duration{0}; }))
    end = std::max(end, interval.ended);
  return end.count();
}

TEST(Generators, AreValidWhateverTheSize) {
  for (std::uint32_t stages = 1; stages <= 6; ++stages) {
    for (Microbatch microbatches = 1; microbatches <= 17; ++microbatches) {
      const Pipeline v = Pipeline::v_shape(stages, microbatches);
      EXPECT_NO_THROW(Schedule::zb_v(v).validate(v)) << stages << " " << microbatches;
      EXPECT_NO_THROW(Schedule::gpipe(v).validate(v)) << stages << " " << microbatches;
      if (microbatches >= 2 * stages) {
        EXPECT_NO_THROW(Schedule::dualpipe_v(v).validate(v)) << stages << " " << microbatches;
      }
      for (const std::uint32_t chunks : {1U, 2U, 3U}) {
        const Pipeline looped = Pipeline::interleaved(stages, chunks, microbatches);
        EXPECT_NO_THROW(Schedule::looped_bfs(looped).validate(looped)) << stages << " " << microbatches;
      }
    }
  }
}

TEST(Generators, SizeOfAThousandStagesAndMicrobatchesIsOrdinary) {
  const Pipeline chain = Pipeline::chain(1024, 1024);
  EXPECT_NO_THROW(Schedule::one_f_one_b(chain).validate(chain));
  const Pipeline v = Pipeline::v_shape(256, 1024);
  EXPECT_NO_THROW(Schedule::zb_v(v).validate(v));
  EXPECT_NO_THROW(Schedule::dualpipe_v(v).validate(v));
}

/// No stage waits between its first and its last task, and stage s starts s forwards late.
TEST(ZBV, HasNoBubbleWhereAllPassesTakeTheSameTime) {
  for (const std::uint32_t stages : {1U, 2U, 3U, 5U, 8U}) {
    for (const Microbatch microbatches : {2 * stages, 2 * stages + 3, 6 * stages}) {
      const Pipeline pipeline = Pipeline::v_shape(stages, microbatches);
      EXPECT_EQ(makespan(pipeline, Schedule::zb_v(pipeline), {}), 6 * microbatches + stages - 1)
          << stages << " " << microbatches;
    }
  }
}

/// As much memory as 1F1B's first stage, on every stage: 2 N chunks of half the size.
TEST(ZBV, HoldsTwoMicrobatchesAStageOfEachHalf) {
  const Pipeline pipeline = Pipeline::v_shape(4, 16);
  const Schedule schedule = Schedule::zb_v(pipeline);
  for (StageId stage = 0; stage < 4; ++stage) EXPECT_EQ(schedule.peak_in_flight(pipeline, stage), 8U);
}

TEST(ZBV, LeavesOutMicrobatchesThatDoNotExist) {
  EXPECT_EQ(order_of(Schedule::zb_v(Pipeline::v_shape(2, 1)), 1),
            (Tasks{forward(0, 1), forward(0, 2), backward(0, 2), weight_grad(0, 2), backward(0, 1),
                   weight_grad(0, 1)}));
}

TEST(ZBV, SplitsEveryBackward) {
  const Pipeline pipeline = Pipeline::v_shape(3, 9);
  const Schedule schedule = Schedule::zb_v(pipeline);
  for (StageId stage = 0; stage < 3; ++stage) EXPECT_EQ(schedule.order(stage).size(), 3U * 2 * 9);
}

/// The published bubble is (N - 1)(F&B + B - 3 W), for a forward and backward that overlap in F&B and N
/// pairs of stages; run one after the other, with a backward at most as long as what fills it, (N - 1) F.
TEST(DualPipeV, StartsAForwardLatePerStageAndFillsTheRest) {
  for (const std::uint32_t stages : {1U, 2U, 3U, 6U}) {
    for (const Microbatch microbatches : {2 * stages, 2 * stages + 3, 4 * stages}) {
      const Pipeline pipeline = Pipeline::v_shape(stages, microbatches);
      const Schedule schedule = Schedule::dualpipe_v(pipeline);
      for (const PassTimes& times : {PassTimes{}, PassTimes{10, 7, 13}}) {
        EXPECT_EQ(makespan(pipeline, schedule, times),
                  2 * microbatches * times.all() + (stages - 1) * times.forward)
            << stages << " " << microbatches;
      }
    }
  }
}

/// The published memory of activations: one chunk more than ZB-V.
TEST(DualPipeV, HoldsOneChunkMoreThanZBV) {
  const Pipeline pipeline = Pipeline::v_shape(4, 16);
  const Schedule schedule = Schedule::dualpipe_v(pipeline);
  for (StageId stage = 0; stage < 4; ++stage) EXPECT_EQ(schedule.peak_in_flight(pipeline, stage), 9U);
}

TEST(DualPipeV, SplitsOnlyAtTheEnds) {
  EXPECT_EQ(order_of(Schedule::dualpipe_v(Pipeline::v_shape(1, 2)), 0),
            (Tasks{forward(0, 0), forward(0, 1), forward(1, 0), backward(0, 1), forward(1, 1), backward(0, 0),
                   backward(1, 1), backward(1, 0), weight_grad(1, 0)}));
}

TEST(DualPipeV, NeedsTwoMicrobatchesAStage) {
  EXPECT_NO_THROW((void)Schedule::dualpipe_v(Pipeline::v_shape(3, 6)));
  try {
    (void)Schedule::dualpipe_v(Pipeline::v_shape(3, 5));
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "schedule: dualpipe-v needs at least two microbatches for each of the 3 stages, not 5");
  }
}

/// (C M + N - 1) (f + b), for at least as many microbatches as stages and chunks that take f and b.
TEST(LoopedBFS, HidesTheWayThroughTheStagesOnce) {
  for (const std::uint32_t stages : {1U, 2U, 4U}) {
    for (const std::uint32_t chunks : {1U, 2U, 3U}) {
      for (const Microbatch microbatches : {stages, 4 * stages}) {
        const Pipeline pipeline = Pipeline::interleaved(stages, chunks, microbatches);
        EXPECT_EQ(makespan(pipeline, Schedule::looped_bfs(pipeline), {}),
                  (chunks * microbatches + stages - 1) * 3)
            << stages << " " << chunks << " " << microbatches;
      }
    }
  }
}

TEST(LoopedBFS, RunsBackwardsInReverse) {
  EXPECT_EQ(order_of(Schedule::looped_bfs(Pipeline::interleaved(2, 2, 2)), 1),
            (Tasks{forward(0, 1), forward(1, 1), forward(0, 3), forward(1, 3), backward(1, 3), backward(0, 3),
                   backward(1, 1), backward(0, 1)}));
}

TEST(LoopedBFS, InOrderOfAccumulationOnlyTheLastBackwardStaysWhole) {
  const Pipeline pipeline = Pipeline::chain(1, 3);
  EXPECT_EQ(order_of(Schedule::looped_bfs(pipeline).with_ordered_accumulation(pipeline), 0),
            (Tasks{forward(0), forward(1), forward(2), backward(2), backward(1), backward(0), weight_grad(1),
                   weight_grad(2)}));
}

TEST(Placements, AreThoseTheGeneratorsTake) {
  for (const std::string_view name : Schedule::names()) {
    const bool v = Schedule::placement(name) == Placement::V;
    const Pipeline fits = v ? Pipeline::v_shape(3, 6) : Pipeline::chain(3, 6);
    EXPECT_NO_THROW((void)Schedule::named(name, fits)) << name;
    if (v) {
      EXPECT_THROW((void)Schedule::named(name, Pipeline::interleaved(3, 2, 6)), ConfigError) << name;
    }
  }
  EXPECT_THROW((void)Schedule::placement("2f2b"), ConfigError);
}

TEST(Placements, AChunkElsewhereIsNamed) {
  const auto refusal = [](auto generator, const Pipeline& pipeline) -> std::string {
    try {
      (void)generator(pipeline);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(
      refusal(Schedule::zb_v, Pipeline::interleaved(2, 2, 4)),
      "schedule: zb-v needs a chain with 2 chunks a stage, down the stages and back up; chunk 2 of 4 is "
      "not placed so");
  EXPECT_EQ(
      refusal(Schedule::looped_bfs, Pipeline::v_shape(2, 4)),
      "schedule: looped-bfs needs a chain with chunk c on stage c mod 2; chunk 2 of 4 is not placed so");
  const std::array<std::uint32_t, 2> depths{1, 1};
  EXPECT_EQ(refusal(Schedule::looped_bfs, Pipeline::joined(depths, 1, 4)).substr(0, 45),
            "schedule: looped-bfs needs a chain with chunk");
  EXPECT_NE(refusal(Schedule::zb_v, Pipeline::chain(2, 4)), "accepted");
}

}  // namespace
}  // namespace sluice::test
