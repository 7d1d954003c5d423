#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "run_checks.hpp"
#include "scenario.hpp"

namespace sluice::test {
namespace {

RC_GTEST_PROP(AnyRun, HoldsEveryRuleAndEnds, ()) {
  const Scenario scenario = draw_scenario(rapidcheck_draw());
  RC_LOG() << describe(scenario);
  RC_ASSERT(fault_in(scenario, run(scenario)) == "");
}

TEST(AnyRun, ManySeeds) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const Scenario scenario = draw_scenario(seeded_draw(seed));
    SCOPED_TRACE(describe(scenario));
    ASSERT_EQ(fault_in(scenario, run(scenario)), "") << seed;
  }
}

}  // namespace
}  // namespace sluice::test
