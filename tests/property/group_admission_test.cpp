#include <gtest/gtest.h>

#include <array>
#include <string_view>
#include <utility>

#include "scenario.hpp"
#include "sluice/sim/world.hpp"

/// Ranks of a group whose messages arrive at different times admit different microbatches, and a decision of
/// the group may take effect after them: slots must be there for it on every rank, and nothing may stall.
namespace sluice::test {
namespace {

constexpr std::uint64_t kScenarios = 3000;
constexpr std::array<std::string_view, 6> kHints = {"bf", "fb", "bfw", "pace", "b-priority", "f-priority"};

struct Group {
  Scenario scenario;
  sim::GroupSettings settings;
};

Group draw_group(const Draw& draw, std::uint64_t seed) {
  const bool split = draw(0, 1) == 1;
  const std::uint32_t stages = draw(1, 4);
  const Microbatch microbatches = draw(2, 12);
  Pipeline pipeline = draw(0, 1) == 1 ? Pipeline::v_shape(stages, microbatches, split)
                                      : Pipeline::interleaved(stages, draw(1, 3), microbatches, split);
  Scenario scenario{std::move(pipeline), {}, {}};
  const std::string_view hint = kHints[draw(0, kHints.size() - 1)];
  for (StageId stage = 0; stage < stages; ++stage) {
    scenario.limits.push_back(chunks_on(scenario.pipeline, stage) + draw(0, 3));
    scenario.hints.push_back(Hint::named(hint, scenario.pipeline, stage));
  }
  scenario.seed = seed;
  scenario.depth = draw(1, 2);
  scenario.delay_bits = draw(0, 8);
  return {std::move(scenario), {draw(1, 3), sim::GroupRule::CommonCandidate, Duration{draw(0, 12)}}};
}

TEST(GroupAdmission, KeepsASlotForWhatTheGroupMayDecide) {
  for (std::uint64_t seed = 0; seed < kScenarios; ++seed) {
    const auto [scenario, group] = draw_group(seeded_draw(seed), seed);
    SCOPED_TRACE(describe(scenario));
    sim::Surroundings surroundings = surroundings_of(scenario);
    surroundings.group = group;
    surroundings.message_delay = [&scenario = scenario](const sim::Transit& transit) {
      Scenario of_member = scenario;
      of_member.seed += std::uint64_t{1} << (40U + transit.member);
      return message_delay(of_member, transit.id);
    };
    sim::World world(scenario.pipeline, setups_of(scenario), surroundings);
    ASSERT_NO_THROW((void)world.run({0}));
    for (StageId stage = 0; stage < scenario.pipeline.stages(); ++stage) {
      const std::uint32_t chunks = chunks_on(scenario.pipeline, stage);
      for (std::uint32_t member = 0; member < group.size; ++member) {
        ASSERT_EQ(world.dispatcher(stage, member).backpressure().free(),
                  world.dispatcher(stage, member).backpressure().credits());
      }
      ASSERT_LE(world.report(stage).peak_in_flight, scenario.limits[stage] + (chunks > 1 ? chunks : 0));
    }
  }
}

}  // namespace
}  // namespace sluice::test
