#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "list_schedule.hpp"
#include "run_checks.hpp"
#include "scenario.hpp"

namespace sluice::test {
namespace {

constexpr std::uint32_t kRoomy = 1000;

/// A scenario of one training iteration on one lane, without hints.
Scenario bare_scenario(const Draw& draw, Pipeline pipeline, std::uint32_t limit) {
  Scenario scenario{std::move(pipeline), {}, {}};
  scenario.limits.assign(scenario.pipeline.stages(), limit);
  scenario.depth = draw(1, 3);
  scenario.seed = draw(0, 1'000'000);
  scenario.delay_bits = draw(0, 10);
  return scenario;
}

std::map<Task, Interval> modelled(const Scenario& scenario, const Schedule& schedule) {
  return list_schedule(
      scenario.pipeline, schedule, [&](const Task& task) { return task_time(scenario, 0, task); },
      [&](const MessageId& id) { return message_delay(scenario, id); });
}

std::map<Task, Interval> executed(const Record& record) {
  std::map<Task, Interval> intervals;
  for (const Execution& execution : record.executions)
    intervals[execution.task] = {execution.started, execution.ended};
  return intervals;
}

/// The named schedules on pipelines they fit.
std::pair<Pipeline, std::string> draw_named(const Draw& draw) {
  const std::uint32_t stages = draw(1, 6);
  const Microbatch microbatches = draw(1, 12);
  switch (draw(0, 7)) {
    case 0:
      return {draw_pipeline(draw, static_cast<Shape>(draw(0, kShapes - 1))), "gpipe"};
    case 1:
      return {Pipeline::chain(stages, microbatches), "1f1b"};
    case 2:
      return {Pipeline::chain(stages, microbatches, draw(0, 1) == 1), "zb-h1"};
    case 3:
      return {Pipeline::interleaved(stages, draw(1, 3), stages * draw(1, 3)), "interleaved"};
    case 4:
      return {Pipeline::interleaved(stages, draw(1, 3), microbatches), "looped-bfs"};
    case 5:
      return {Pipeline::v_shape(stages, microbatches), "zb-v"};
    case 6:
      return {Pipeline::v_shape(stages, 2 * stages + draw(0, 6)), "dualpipe-v"};
    default:
      return {draw_pipeline(draw, Shape::Joined), "1f1b"};
  }
}

RC_GTEST_PROP(FixedMode, NamedSchedulesTakeWhatListSchedulingSays, ()) {
  const Draw draw = rapidcheck_draw();
  const auto [pipeline, name] = draw_named(draw);
  const Scenario scenario = bare_scenario(draw, pipeline, kRoomy);
  const Schedule schedule = Schedule::named(name, pipeline);
  RC_LOG() << name << ": " << scenario.seed;
  RC_ASSERT(executed(run(scenario, fixed_setups(scenario, schedule))) ==
            modelled(scenario, schedule.with_ordered_accumulation(pipeline)));
}

/// Any order that some run took is a schedule, in order of accumulation or not.
TEST(FixedMode, AnySchedulesTakeWhatListSchedulingSays) {
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    const Draw draw = seeded_draw(seed);
    Scenario scenario = draw_scenario(draw);
    scenario.iterations = {{0, IterationKind::Training}};
    scenario.lanes = {};
    scenario.rules.ordered_accumulation = seed % 2 == 0;
    const Schedule schedule("recorded", sequences(run(scenario)));
    scenario.seed += 1;
    scenario.limits.assign(scenario.limits.size(), kRoomy);
    const Record record = run(scenario, fixed_setups(scenario, schedule));
    ASSERT_EQ(executed(record), modelled(scenario, schedule)) << describe(scenario);
  }
}

/// Slots for the schedule's own peak are enough, if not always as fast.
TEST(FixedMode, AnySchedulesEndUnderAnyLimit) {
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    const Draw draw = seeded_draw(seed);
    Scenario scenario = draw_scenario(draw);
    const std::vector<Iteration> iterations = scenario.iterations;
    scenario.iterations = {{0, IterationKind::Training}};
    const Schedule schedule("recorded", sequences(run(scenario)));
    scenario.seed += 1;
    scenario.iterations = iterations;
    for (StageId stage = 0; stage < scenario.pipeline.stages(); ++stage) {
      scenario.limits[stage] = chunks_on(scenario.pipeline, stage);
    }
    SCOPED_TRACE(describe(scenario));
    const Record record = run(scenario, fixed_setups(scenario, schedule));
    ASSERT_EQ(record.slot_faults, std::vector<std::string>{});
    for (StageId stage = 0; stage < scenario.pipeline.stages(); ++stage)
      scenario.limits[stage] = record.slots[stage];
    scenario.rules.hold_until_weight_grad = false;
    scenario.rules.weight_grad_makes_room = false;
    ASSERT_EQ(fault_in(scenario, record), "");
  }
}

TEST(FixedMode, RunsTheScheduleInOrder) {
  const Draw draw = seeded_draw(5);
  const Scenario scenario = bare_scenario(draw, Pipeline::chain(4, 8, true), 4);
  const Schedule schedule = Schedule::zb_h1(scenario.pipeline);
  const auto orders = sequences(run(scenario, fixed_setups(scenario, schedule)));
  for (StageId stage = 0; stage < 4; ++stage) {
    EXPECT_TRUE(std::ranges::equal(orders[stage], schedule.order(stage))) << stage;
  }
}

}  // namespace
}  // namespace sluice::test
