#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "scenario.hpp"
#include "sluice/error.hpp"
#include "sluice/sim/lower_bound.hpp"
#include "sluice/sim/scenario.hpp"

namespace sluice::test {
namespace {

/// A drawn scenario of one training iteration on one lane.
Scenario draw_single(const Draw& draw) {
  Scenario scenario = draw_scenario(draw);
  scenario.iterations = {{0, IterationKind::Training}};
  scenario.lanes = {};
  return scenario;
}

Duration bound_of(const Scenario& scenario) {
  sim::Realized realized;
  realized.task_time = [&](const Task& task, bool) { return task_time(scenario, 0, task); };
  realized.message_delay = [&](const MessageId& id) { return message_delay(scenario, id); };
  return sim::lower_bound(scenario.pipeline, realized);
}

Duration makespan(const Scenario& scenario, std::vector<sim::StageSetup> setups) {
  sim::World world(scenario.pipeline, std::move(setups), surroundings_of(scenario));
  return world.run({0, IterationKind::Training});
}

RC_GTEST_PROP(LowerBound, HoldsForAnyHintsLimitsTimesAndDelays, ()) {
  const Scenario scenario = draw_single(rapidcheck_draw());
  RC_LOG() << describe(scenario);
  RC_ASSERT(makespan(scenario, setups_of(scenario)) >= bound_of(scenario));
}

RC_GTEST_PROP(LowerBound, HoldsForEverySchedule, ()) {
  Scenario scenario = draw_single(rapidcheck_draw());
  scenario.limits.assign(scenario.limits.size(), 1000);
  RC_LOG() << describe(scenario);
  for (const std::string_view name : Schedule::names()) {
    try {
      const auto setups = fixed_setups(scenario, Schedule::named(name, scenario.pipeline));
      RC_ASSERT(makespan(scenario, setups) >= bound_of(scenario));
    } catch (const ConfigError&) {
      // The schedule is not one for this pipeline.
    }
  }
}

/// Everything a simulated scenario can vary.
sim::Scenario draw_simulated(const Draw& draw) {
  sim::Scenario scenario(draw_pipeline(draw, static_cast<Shape>(draw(0, kShapes - 1))).with_split(false));
  for (auto& times : scenario.times) {
    const double backward = draw(0, 40);
    const auto spread = draw(0, 1) == 0 ? host::Spread::Lognormal : host::Spread::Normal;
    times = host::DurationModel({1e6 * draw(0, 20), 1e6 * backward, 1e5 * draw(0, 10) * backward},
                                0.1 * draw(0, 8), spread);
  }
  for (sim::Link& link : scenario.links) {
    link.latency = Duration{1000 * draw(0, 2000)};
    const std::vector<std::string> kinds = {"j0", "j3", "tail:0.5,20"};
    link.jitter = host::DelayModel::parse(kinds[draw(0, 2)]);
  }
  if (draw(0, 1) == 0) scenario.sizes = {{{0}, 0.5, {}}};
  scenario.group.size = draw(1, 3);
  scenario.group.latency = Duration{1000 * draw(0, 200)};
  scenario.skew.mean = Duration{1000 * draw(0, 8000)};
  scenario.replicas = draw(1, 2);
  scenario.depth = draw(1, 2);
  scenario.overhead = {Duration{1000 * draw(0, 300)}, Duration{1000 * draw(0, 300)}};
  scenario.seed = draw(0, 1'000'000);
  for (StageId stage = 0; stage < scenario.pipeline.stages(); ++stage)
    scenario.limits[stage] = chunks_on(scenario.pipeline, stage) + draw(0, 6);
  return scenario;
}

/// Groups of ranks that see different arrivals among them: a stall would throw.
RC_GTEST_PROP(LowerBound, HoldsForGroupsReplicasAndOverheadsAndNoneOfThemStalls, ()) {
  const Draw draw = rapidcheck_draw();
  const sim::Scenario scenario = draw_simulated(draw);
  scenario.validate();
  bool splittable = true;
  for (std::uint32_t chunk = 0; chunk < scenario.pipeline.chunks(); ++chunk)
    splittable = splittable && scenario.pipeline.splittable(static_cast<Chunk>(chunk));
  const Pipeline pipeline = scenario.pipeline.with_split(splittable && draw(0, 1) == 1);
  std::vector<Hint> hints;
  for (StageId stage = 0; stage < pipeline.stages(); ++stage)
    hints.push_back(draw(0, 1) == 0 ? Hint::named(Hint::names()[draw(0, 4)], pipeline, stage)
                                    : draw_hint(draw, pipeline, stage));
  const auto setups = [&] {
    std::vector<sim::StageSetup> made;
    for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
      DispatcherConfig config;
      config.rank = config.stage = stage;
      config.limit = scenario.limits[stage];
      made.push_back({config, Policy::readiness(hints[stage])});
    }
    return made;
  };
  const sim::Outcome outcome = sim::simulate(scenario, pipeline, setups, 1);
  RC_ASSERT(outcome.makespan >= sim::bound(scenario, pipeline, 1));
  for (const sim::StageReport& stage : outcome.stages) {
    RC_ASSERT(stage.blocked >= Duration{0});
    RC_ASSERT(stage.agreement >= Duration{0});
  }
}

/// Mean of makespan / bound of BFW: how far a method that can still be improved is from it.
TEST(LowerBound, IsCloseToWhatBFWTakesOnAChain) {
  sim::Scenario scenario(Pipeline::chain(8, 64));
  for (auto& times : scenario.times) times = host::DurationModel({10e6, 20e6, 10e6}, 0.2);
  for (sim::Link& link : scenario.links) link.jitter = host::DelayModel::parse("tail:0.3,10");
  const Pipeline pipeline = scenario.pipeline.with_split(true);
  const auto setups = [&] {
    std::vector<sim::StageSetup> made;
    for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
      DispatcherConfig config;
      config.rank = config.stage = stage;
      made.push_back({config, Policy::readiness(Hint::named("bfw", pipeline, stage))});
    }
    return made;
  };
  const auto makespan = static_cast<double>(sim::simulate(scenario, pipeline, setups, 1).makespan.count());
  EXPECT_LT(makespan / static_cast<double>(sim::bound(scenario, pipeline, 1).count()), 1.05);
}

}  // namespace
}  // namespace sluice::test
