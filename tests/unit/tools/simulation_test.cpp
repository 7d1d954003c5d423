#include "run/simulation.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace sluice::tools {
namespace {

sim::Scenario scenario_of(Pipeline pipeline, double sigma) {
  sim::Scenario scenario(std::move(pipeline));
  for (auto& times : scenario.times) times = host::DurationModel({10e6, 20e6, 10e6}, sigma);
  return scenario;
}

std::vector<Method> methods_of(const sim::Scenario& scenario, const std::vector<std::string>& names) {
  std::vector<Method> methods;
  for (const std::string& name : names)
    methods.emplace_back(name, scenario.pipeline, method_settings(scenario));
  return methods;
}

std::vector<SimulatedMethod> run(const sim::Scenario& scenario, const std::vector<Method>& methods,
                                 std::uint64_t seeds, unsigned threads) {
  SimulationSettings settings;
  settings.seeds = seeds;
  settings.threads = threads;
  return simulate_methods(scenario, methods, settings);
}

TEST(Simulation, ResultsDoNotDependOnTheThreads) {
  sim::Scenario scenario = scenario_of(Pipeline::chain(4, 12), 0.3);
  for (sim::Link& link : scenario.links) link.jitter = host::DelayModel::parse("tail:0.3,10");
  const auto methods = methods_of(scenario, {"1f1b", "bf", "bfw"});
  const auto one = run(scenario, methods, 6, 1);
  const auto many = run(scenario, methods, 6, 5);
  ASSERT_EQ(one.size(), 3U);
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].name, methods[i].name());
    EXPECT_EQ(one[i].makespans, many[i].makespans);
    EXPECT_EQ(one[i].bounds, many[i].bounds);
    EXPECT_EQ(one[i].compute, many[i].compute);
    EXPECT_EQ(one[i].peak_in_flight, many[i].peak_in_flight);
  }
}

TEST(Simulation, OnlyGroupsThatChooseHaveToAgree) {
  sim::Scenario scenario = scenario_of(Pipeline::chain(4, 12), 0.3);
  scenario.group = {2, sim::GroupRule::CommonCandidate, std::chrono::microseconds(100)};
  // Backwards stay whole: 24 tasks a stage.
  scenario.rules = Rules::paper();
  const auto methods = run(scenario, methods_of(scenario, {"1f1b", "bf"}), 1, 1);
  EXPECT_EQ(methods[0].agreement[0], 0);
  EXPECT_GE(methods[1].agreement[0], 24 * 100e-6);
}

TEST(Simulation, AutoLearnsFromAnIterationBeforeTheMeasuredOne) {
  sim::Scenario scenario = scenario_of(Pipeline::chain(8, 48), 0);
  for (sim::Link& link : scenario.links) link.jitter = host::DelayModel::parse("tail:0.3,10");
  std::fill(scenario.limits.begin(), scenario.limits.end(), 8);
  for (const std::uint32_t replicas : {1U, 2U}) {
    scenario.replicas = replicas;
    const auto methods = run(scenario, methods_of(scenario, {"bfw", "auto"}), 3, 2);
    EXPECT_NE(methods[1].makespans, methods[0].makespans);
    EXPECT_LT(methods[1].median_makespan(), methods[0].median_makespan());
  }
}

TEST(Simulation, PartsAddUpAndTheBoundHolds) {
  sim::Scenario scenario = scenario_of(Pipeline::chain(4, 12), 0.3);
  scenario.group = {2, sim::GroupRule::CommonCandidate, std::chrono::microseconds(100)};
  for (const SimulatedMethod& method : run(scenario, methods_of(scenario, {"1f1b", "bf"}), 4, 2)) {
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(method.compute[i] + method.blocked[i] + method.agreement[i], method.makespans[i], 1e-8);
      EXPECT_GE(method.makespans[i], method.bounds[i]);
    }
    EXPECT_NEAR(method.at_median(method.compute) + method.at_median(method.blocked) +
                    method.at_median(method.agreement),
                method.median_makespan(), 1e-8);
    EXPECT_GE(method.bound_ratio(), 1);
    EXPECT_GT(method.bubble_fraction(), 0);
    EXPECT_LT(method.bubble_fraction(), 1);
  }
}

/// A V-shaped method has other chunks beside each other, so its stages have other sums.
TEST(Simulation, AMethodIsHeldAgainstTheBoundOfItsPlacement) {
  sim::Scenario scenario = scenario_of(Pipeline::interleaved(2, 2, 8), 0);
  scenario.times[0] = scenario.times[3] = host::DurationModel({50e6, 100e6, 50e6});
  std::vector<Method> methods = methods_of(scenario, {"bf"});
  methods.emplace_back("zb-v", Pipeline::v_shape(2, 8), method_settings(scenario));
  const auto results = run(scenario, methods, 1, 1);
  EXPECT_NE(results[0].bounds, results[1].bounds);
  for (const SimulatedMethod& method : results) EXPECT_GE(method.bound_ratio(), 1) << method.name;
}

TEST(Simulation, TheLastDrawOfEachMethodCanBeLookedAt) {
  const sim::Scenario scenario = scenario_of(Pipeline::chain(3, 5), 0.3);
  const auto methods = methods_of(scenario, {"1f1b", "bfw"});
  SimulationSettings settings;
  settings.seeds = 3;
  std::vector<std::vector<trace::TaskSpan>> spans(2);
  settings.inspect = [&](std::size_t method, const sim::World& world) {
    spans[method] = spans_of(world, 3, 3);
    EXPECT_FALSE(world.dispatcher(0).log().decisions().empty());
  };
  const auto results = simulate_methods(scenario, methods, settings);
  EXPECT_EQ(spans[0].size(), 3U * 5 * 2);
  EXPECT_EQ(spans[1].size(), 3U * 5 * 3);
  double end = 0;
  for (const trace::TaskSpan& span : spans[0]) end = std::max(end, span.end_s);
  EXPECT_NEAR(end, results[0].makespans[2], 1e-9);
}

}  // namespace
}  // namespace sluice::tools
