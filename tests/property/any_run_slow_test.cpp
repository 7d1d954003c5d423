#include <gtest/gtest.h>

#include "run_checks.hpp"
#include "scenario.hpp"

namespace sluice::test {
namespace {

TEST(AnyRun, HundredThousandFixedSeedsKeepEveryRuleAndEnd) {
  for (std::uint64_t seed = 1'000'000; seed < 1'100'000; ++seed) {
    const Scenario scenario = draw_scenario(seeded_draw(seed));
    ASSERT_EQ(fault_in(scenario, run(scenario)), "") << "seed " << seed << ": " << describe(scenario);
  }
}

}  // namespace
}  // namespace sluice::test
