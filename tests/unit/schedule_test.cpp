#include "sluice/schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include "sluice/error.hpp"
#include "tasks.hpp"

namespace sluice::test {
namespace {

const Pipeline kTwo = Pipeline::chain(2, 2);

std::string refusal(std::vector<Tasks> orders, const Pipeline& pipeline = kTwo) {
  try {
    Schedule("mine", std::move(orders)).validate(pipeline);
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "schedule");
    return error.what();
  }
  return "accepted";
}

const Tasks kFirst = {forward(0, 0), forward(1, 0), backward(0, 0), backward(1, 0)};
const Tasks kLast = {forward(0, 1), backward(0, 1), forward(1, 1), backward(1, 1)};

Tasks order_of(const Schedule& schedule, StageId stage) {
  return {schedule.order(stage).begin(), schedule.order(stage).end()};
}

TEST(Schedule, OneFOneBAlternatesAfterItsWarmUp) {
  const Schedule schedule = Schedule::one_f_one_b(Pipeline::chain(2, 3));
  EXPECT_EQ(order_of(schedule, 0),
            (Tasks{forward(0), forward(1), backward(0), forward(2), backward(1), backward(2)}));
  EXPECT_EQ(order_of(schedule, 1), (Tasks{forward(0, 1), backward(0, 1), forward(1, 1), backward(1, 1),
                                          forward(2, 1), backward(2, 1)}));
}

TEST(Schedule, GPipeRunsAllForwardsThenAllBackwards) {
  EXPECT_EQ(order_of(Schedule::gpipe(Pipeline::interleaved(1, 2, 2)), 0),
            (Tasks{forward(0, 0), forward(1, 0), forward(0, 1), forward(1, 1), backward(0, 1), backward(1, 1),
                   backward(0, 0), backward(1, 0)}));
}

TEST(Schedule, ZBH1PutsWeightGradsOffWhileMemoryAllows) {
  EXPECT_EQ(order_of(Schedule::zb_h1(Pipeline::chain(2, 2, true)), 1),
            (Tasks{forward(0, 1), backward(0, 1), forward(1, 1), backward(1, 1), weight_grad(0, 1),
                   weight_grad(1, 1)}));
}

TEST(Schedule, InterleavedTakesGroupsAsLargeAsThePipelineIsDeep) {
  const Schedule schedule = Schedule::interleaved(Pipeline::interleaved(2, 2, 2));
  EXPECT_EQ(order_of(schedule, 1), (Tasks{forward(0, 1), forward(1, 1), forward(0, 3), backward(0, 3),
                                          forward(1, 3), backward(1, 3), backward(0, 1), backward(1, 1)}));
}

/// All but looped-bfs accumulate in order as they are.
TEST(Schedule, EveryNamedScheduleIsValidWhateverItsSize) {
  for (std::uint32_t stages = 1; stages <= 5; ++stages) {
    for (Microbatch microbatches = 1; microbatches <= 11; ++microbatches) {
      for (const std::string_view name : Schedule::names()) {
        if (name == "dualpipe-v" && microbatches < 2 * stages) continue;
        const Pipeline pipeline = Schedule::placement(name) == Placement::V
                                      ? Pipeline::v_shape(stages, microbatches, true)
                                      : Pipeline::chain(stages, microbatches, true);
        const Schedule schedule = Schedule::named(name, pipeline);
        EXPECT_NO_THROW(schedule.validate(pipeline)) << name << " " << stages << " " << microbatches;
        const Schedule ordered = schedule.with_ordered_accumulation(pipeline);
        EXPECT_NO_THROW(ordered.validate(pipeline)) << name << " " << stages << " " << microbatches;
        if (name == "looped-bfs") continue;
        EXPECT_EQ(order_of(ordered, 0), order_of(schedule, 0)) << name;
      }
    }
  }
}

TEST(PeakInFlight, IsTheTextbooks) {
  const Pipeline pipeline = Pipeline::chain(4, 8, true);
  for (StageId stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(Schedule::one_f_one_b(pipeline).peak_in_flight(pipeline, stage), 4U - stage);
    EXPECT_EQ(Schedule::gpipe(pipeline).peak_in_flight(pipeline, stage), 8U);
    EXPECT_EQ(Schedule::zb_h1(pipeline).peak_in_flight(pipeline, stage), 4U)
        << "ZB-H1 holds what 1F1B's first stage does";
  }
}

TEST(OrderedAccumulation, ABackwardOutOfTurnIsSplitAndItsWeightGradFollowsInTurn) {
  const Pipeline pipeline = Pipeline::chain(1, 3);
  const Schedule schedule("mine",
                          {{forward(0), forward(1), forward(2), backward(1), backward(2), backward(0)}});
  EXPECT_EQ(order_of(schedule.with_ordered_accumulation(pipeline), 0),
            (Tasks{forward(0), forward(1), forward(2), backward(1), backward(2), backward(0), weight_grad(1),
                   weight_grad(2)}));
}

TEST(OrderedAccumulation, AnUnsplittableBackwardOutOfTurnIsRefused) {
  const Pipeline pipeline({{0, false}}, {}, 2, false);
  const Schedule schedule("mine", {{forward(0), forward(1), backward(1), backward(0)}});
  EXPECT_THROW((void)schedule.with_ordered_accumulation(pipeline), ConfigError);
}

TEST(ScheduleErrors, NameRankAndPosition) {
  EXPECT_EQ(refusal({kFirst, kLast}), "accepted");
  EXPECT_EQ(refusal({kFirst}), "schedule: has orders for 1 ranks, the pipeline has 2");
  EXPECT_EQ(refusal({kFirst, {forward(0, 1), backward(0, 1), forward(1, 1)}}),
            "schedule: rank 1, position 3: B(chunk 1, microbatch 1) is missing");
  EXPECT_EQ(refusal({kFirst, {}}), "schedule: rank 1, position 0: F(chunk 1, microbatch 0) is missing");
  EXPECT_EQ(refusal({{forward(0), forward(0)}, kLast}),
            "schedule: rank 0, position 1: F(chunk 0, microbatch 0) is a duplicate");
  EXPECT_EQ(refusal({{backward(0)}, kLast}),
            "schedule: rank 0, position 0: B(chunk 0, microbatch 0) comes before a pass it needs");
  EXPECT_EQ(refusal({{forward(0, 1)}, kLast}),
            "schedule: rank 0, position 0: F(chunk 1, microbatch 0) is not a task of this rank");
  EXPECT_EQ(refusal({{forward(7)}, kLast}),
            "schedule: rank 0, position 0: F(chunk 0, microbatch 7) is not a task of this rank");
}

TEST(ScheduleErrors, OrdersThatDeadlockTogetherAreRefused) {
  const Tasks last = {forward(1, 1), backward(1, 1), forward(0, 1), backward(0, 1)};
  EXPECT_EQ(
      refusal({{forward(0), backward(0), forward(1), backward(1)}, last}),
      "schedule: rank 0, position 1: B(chunk 0, microbatch 0) waits for ever for B(chunk 1, microbatch 0) "
      "at rank 1, position 3: the orders deadlock");
}

TEST(ScheduleErrors, FaultsNameTheFirstOfEveryRank) {
  const auto faults = [](std::vector<Tasks> orders) {
    std::vector<std::string> found;
    for (const ScheduleFault& fault : Schedule("mine", std::move(orders)).faults(kTwo))
      found.push_back(to_string(fault));
    return found;
  };
  EXPECT_EQ(faults({kFirst, kLast}), (std::vector<std::string>{}));
  EXPECT_EQ(faults({{forward(0), forward(0)}, {forward(0, 1), backward(0, 1), forward(1, 1)}}),
            (std::vector<std::string>{"rank 0, position 1: F(chunk 0, microbatch 0) is a duplicate",
                                      "rank 1, position 3: B(chunk 1, microbatch 1) is missing"}));
  EXPECT_EQ(faults({{forward(0), backward(0), forward(1), backward(1)},
                    {forward(1, 1), backward(1, 1), forward(0, 1), backward(0, 1)}}),
            (std::vector<std::string>{
                "rank 0, position 1: B(chunk 0, microbatch 0) waits for ever for B(chunk 1, microbatch 0) at "
                "rank 1, position 3: the orders deadlock",
                "rank 1, position 0: F(chunk 1, microbatch 1) waits for ever for F(chunk 0, microbatch 1) at "
                "rank 0, position 2: the orders deadlock"}));
  EXPECT_THROW((void)Schedule("mine", {kFirst}).faults(kTwo), ConfigError);
}

TEST(ScheduleErrors, AWeightGradOfAnUnsplittableChunkIsRefused) {
  EXPECT_EQ(refusal({{forward(0), backward(0), weight_grad(0)}}, Pipeline({{0, false}}, {}, 1, false)),
            "schedule: rank 0, position 2: W(chunk 0, microbatch 0) is of a chunk that cannot be split");
}

TEST(ScheduleErrors, UnknownNamesAndPipelinesThatDoNotFitAreRefused) {
  EXPECT_THROW((void)Schedule::named("2f2b", kTwo), ConfigError);
  EXPECT_THROW((void)Schedule::named("1f1b", Pipeline::v_shape(2, 4)), ConfigError);
  EXPECT_THROW((void)Schedule::named("zb-h1", Pipeline::v_shape(2, 4)), ConfigError);
  EXPECT_THROW((void)Schedule::named("interleaved", Pipeline::v_shape(2, 4)), ConfigError);
  const std::array<std::uint32_t, 2> depths{1, 1};
  EXPECT_THROW((void)Schedule::named("interleaved", Pipeline::joined(depths, 1, 4)), ConfigError);
}

}  // namespace
}  // namespace sluice::test
