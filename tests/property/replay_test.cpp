#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "run_checks.hpp"
#include "scenario.hpp"

namespace sluice::test {
namespace {

/// Whether each backward was whole, in launch order.
std::vector<std::vector<bool>> wholes(const Record& record) {
  std::vector<std::vector<bool>> all;
  for (const auto& log : record.logs) {
    all.emplace_back();
    for (const Decision& decision : log) all.back().push_back(decision.whole);
  }
  return all;
}

/// A replay is checked for everything but the limit, which may have been another one's.
std::string fault_in_replay(Scenario scenario, Record record) {
  scenario.rules.hold_until_weight_grad = false;
  scenario.rules.weight_grad_makes_room = false;
  for (std::uint32_t& limit : scenario.limits) limit = 1000;
  return fault_in(scenario, record);
}

RC_GTEST_PROP(Replay, ReproducesTheSequenceAlsoUnderOtherTimes, ()) {
  const Scenario scenario = draw_scenario(rapidcheck_draw());
  RC_LOG() << describe(scenario);
  const Record recorded = run(scenario);
  Scenario other = scenario;
  other.seed += *rc::gen::inRange(0, 3);
  const Record replayed = run(other, replay_setups(other, recorded));
  RC_ASSERT(sequences(replayed) == sequences(recorded));
  RC_ASSERT(wholes(replayed) == wholes(recorded));
  RC_ASSERT(fault_in_replay(other, replayed) == "");
}

TEST(Replay, ReproducesThousandsOfRuns) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const Scenario scenario = draw_scenario(seeded_draw(seed));
    SCOPED_TRACE(describe(scenario));
    const Record recorded = run(scenario);
    Scenario other = scenario;
    other.seed += seed % 3;
    other.depth = 1 + static_cast<std::uint32_t>(seed % 2);
    const Record replayed = run(other, replay_setups(other, recorded));
    ASSERT_EQ(sequences(replayed), sequences(recorded));
    ASSERT_EQ(wholes(replayed), wholes(recorded));
    ASSERT_EQ(fault_in_replay(other, replayed), "");
  }
}

}  // namespace
}  // namespace sluice::test
