#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "run_checks.hpp"
#include "scenario.hpp"

/// Any pipeline, hints, limits, times and orders of arrival: the rules hold and every run ends.
namespace sluice::test {
namespace {

constexpr std::uint64_t kScenarios = 6000;

RC_GTEST_PROP(AnyRun, KeepsEveryRuleAndEnds, ()) {
  const Scenario scenario = draw_scenario(rapidcheck_draw());
  RC_LOG() << describe(scenario);
  RC_ASSERT(fault_in(scenario, run(scenario)) == "");
}

/// A run of every scenario of a range of seeds, with the rules given; what runs at the limit stays as drawn.
void expect_no_fault(Rules rules, std::uint64_t first, std::uint64_t count) {
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    Scenario scenario = draw_scenario(seeded_draw(seed));
    rules.mixed_at_limit = scenario.rules.mixed_at_limit;
    rules.weight_grad_makes_room = scenario.rules.weight_grad_makes_room;
    scenario.rules = rules;
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + describe(scenario));
    ASSERT_EQ(fault_in(scenario, run(scenario)), "");
  }
}

TEST(AnyRun, ThousandsOfFixedSeedsKeepEveryRuleAndEnd) { expect_no_fault({}, 0, kScenarios); }

TEST(AnyRun, EndsWithAnyOrderOfAccumulation) {
  expect_no_fault({false, true, true}, kScenarios, kScenarios / 4);
}

TEST(AnyRun, EndsWithCreditsGivenBackAfterTheBackward) {
  expect_no_fault({true, false, true}, 2 * kScenarios, kScenarios / 4);
}

TEST(AnyRun, TheSameSeedGivesTheSameLog) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Scenario scenario = draw_scenario(seeded_draw(seed));
    const Record first = run(scenario);
    const Record second = run(scenario);
    ASSERT_EQ(sequences(first), sequences(second)) << describe(scenario);
    for (std::size_t i = 0; i < first.executions.size(); ++i) {
      ASSERT_EQ(first.executions[i].started, second.executions[i].started) << describe(scenario);
      ASSERT_EQ(first.executions[i].slot, second.executions[i].slot) << describe(scenario);
    }
  }
}

TEST(AnyRun, OtherDelaysGiveAnotherOrder) {
  Scenario scenario{Pipeline::chain(4, 12), {8, 8, 8, 8}, {}};
  for (StageId stage = 0; stage < 4; ++stage)
    scenario.hints.push_back(Hint::named("bf", scenario.pipeline, stage));
  const Record first = run(scenario);
  scenario.seed = 1;
  EXPECT_NE(sequences(first), sequences(run(scenario)));
}

}  // namespace
}  // namespace sluice::test
