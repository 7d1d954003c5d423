#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "sluice/host/delay_model.hpp"
#include "sluice/host/duration_model.hpp"
#include "sluice/sim/world.hpp"

/// The published effect, in virtual time: 8 stages, 64 microbatches, messages late with probability 0.3.
namespace sluice::test {
namespace {

constexpr std::uint32_t kStages = 8;
constexpr Microbatch kMicrobatches = 64;
constexpr std::uint64_t kSeeds = 16;

std::vector<Policy> policies_of(const std::string& method, const Pipeline& pipeline, const Rules& rules) {
  if (method == "1f1b") return Policy::fixed(Schedule::one_f_one_b(pipeline), pipeline, rules);
  std::vector<Policy> policies;
  for (StageId stage = 0; stage < pipeline.stages(); ++stage)
    policies.push_back(Policy::readiness(Hint::named(method, pipeline, stage)));
  return policies;
}

Duration makespan(const std::string& method, const std::string& delays, std::uint64_t seed,
                  const Rules& rules) {
  const Pipeline pipeline = Pipeline::chain(kStages, kMicrobatches, method == "bfw");
  const host::DurationModel times = host::DurationModel::parse("f=10ms,b=20ms,w=10ms");
  const host::DelayModel lateness = host::DelayModel::parse(delays);
  const std::vector<Policy> policies = policies_of(method, pipeline, rules);
  std::vector<sim::StageSetup> setups;
  for (StageId stage = 0; stage < kStages; ++stage) {
    DispatcherConfig config;
    config.rank = config.stage = stage;
    config.rules = rules;
    setups.push_back({config, policies[stage]});
  }
  sim::Surroundings surroundings;
  surroundings.task_time = [&](const Launch& launch) {
    return times.draw(seed, launch.iteration, launch.task, launch.whole, 1);
  };
  surroundings.message_delay = [&](const sim::Transit& transit) {
    return lateness.draw(seed, transit.id, {});
  };
  sim::World world(pipeline, std::move(setups), surroundings);
  return world.run({0});
}

/// Ratio of the medians over all seeds.
double speed_up(const std::string& method, const std::string& delays, const Rules& rules = {}) {
  const auto median = [&](const std::string& each) {
    std::vector<double> all;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      all.push_back(static_cast<double>(makespan(each, delays, seed, rules).count()));
    }
    std::sort(all.begin(), all.end());
    return (all[kSeeds / 2 - 1] + all[kSeeds / 2]) / 2;
  };
  return median("1f1b") / median(method);
}

TEST(HeavyTail, ReadinessGainsAThirdAndSplittingMore) {
  EXPECT_GE(speed_up("bf", "tail:0.3,10"), 1.33);
  EXPECT_GE(speed_up("bfw", "tail:0.3,10"), 1.45);
}

TEST(HeavyTail, ThePublishedRulesGiveWhatAnIndependentModelGives) {
  EXPECT_NEAR(speed_up("bf", "tail:0.3,10", Rules::paper()), 1.38, 0.04);
  EXPECT_NEAR(speed_up("bfw", "tail:0.3,10", Rules::paper()), 1.52, 0.04);
  EXPECT_NEAR(speed_up("bf", "tail:0.3,30", Rules::paper()), 2.13, 0.08);
  EXPECT_NEAR(speed_up("bfw", "tail:0.3,30", Rules::paper()), 2.43, 0.08);
}

TEST(HeavyTail, OrderedAccumulationCostsNothing) {
  EXPECT_GE(speed_up("bf", "tail:0.3,30"), speed_up("bf", "tail:0.3,30", Rules::paper()));
}

}  // namespace
}  // namespace sluice::test
