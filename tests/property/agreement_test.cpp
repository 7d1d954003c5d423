#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "attempt_checks.hpp"
#include "hand_group.hpp"
#include "run_checks.hpp"
#include "scenario.hpp"
#include "sluice/agree/form.hpp"
#include "sluice/host/draws.hpp"

/// The runtime's own agreements in whole pipelines: every rank sees its messages at times of its own, a
/// message of the agreement takes any time, and ranks begin their iterations when they can.
namespace sluice::test {
namespace {

using agree::Form;

constexpr std::uint64_t kScenarios = 1500;

struct Group {
  Scenario scenario;
  std::uint32_t members = 2;
  Form form = Form::Leader;
  std::uint32_t hop_bits = 0;
};

std::string describe(const Group& group) {
  return std::string(agree::name(group.form)) + ", " + std::to_string(group.members) + " members, hop bits " +
         std::to_string(group.hop_bits) + ": " + describe(group.scenario);
}

Group draw_group(const Draw& draw, Form form) {
  Group group{draw_scenario(draw), draw(1, 4), form, draw(0, 8)};
  Scenario& scenario = group.scenario;
  scenario.depth = draw(1, 2);
  // Where one lane accumulates, decisions alone tell whether a backward runs whole.
  if (!scenario.pipeline.split_backward()) scenario.lanes[2] = scenario.lanes[1];
  if (form == Form::FirstPick) {
    // The published rules, which the limit can bring to a stand in many pipelines.
    scenario.rules = Rules::paper();
    for (StageId stage = 0; stage < scenario.pipeline.stages(); ++stage)
      scenario.limits[stage] = chunks_on(scenario.pipeline, stage) * scenario.pipeline.microbatches();
  }
  return group;
}

/// Up to a power of two that is drawn with it, so that some are far later than others.
Duration drawn_delay(std::initializer_list<std::uint64_t> key, std::uint32_t most_bits) {
  const std::uint64_t draw = host::draws::bits(key);
  return Duration{(draw >> 32U) % (std::uint64_t{1} << (draw % (most_bits + 1)))};
}

sim::Surroundings surroundings_of(const Group& group) {
  sim::Surroundings around = surroundings_of(group.scenario);
  around.group = {group.members, sim::GroupRule::CommonCandidate, Duration{0}, group.form};
  around.message_delay = [scenario = group.scenario](const sim::Transit& transit) {
    Scenario of_member = scenario;
    of_member.seed += std::uint64_t{transit.member} << 40U;
    return message_delay(of_member, transit.id);
  };
  around.agreement_delay = [seed = group.scenario.seed, bits = group.hop_bits, sent = std::uint64_t{0}](
                               std::uint32_t from, std::uint32_t to) mutable {
    return drawn_delay({seed, 3, ++sent, from, to}, bits);
  };
  return around;
}

Record run(const Group& group) {
  StaggeredWorld world(group.scenario.pipeline, setups_of(group.scenario), surroundings_of(group));
  return world.run(group.scenario.iterations);
}

std::string fault_in(const Group& group, const Record& record) {
  Scenario scenario = group.scenario;
  // What is decided next was agreed on before this rank knew what its limit keeps out.
  scenario.rules.weight_grad_makes_room = false;
  const std::string fault = fault_in(scenario, record);
  if (!fault.empty()) return fault;
  for (const auto& members : record.agreements) {
    for (const AgreementStatistics& each : members) {
      if (each.decisions != members[0].decisions || each.attempts != members[0].attempts ||
          each.deferrals != members[0].deferrals || each.picks_differed != members[0].picks_differed)
        return "the members have counted differently";
      if (each.attempts != each.decisions + each.deferrals) return "an attempt had no outcome";
    }
  }
  return {};
}

class AnyGroup : public testing::TestWithParam<Form> {};

INSTANTIATE_TEST_SUITE_P(Forms, AnyGroup, testing::ValuesIn(agree::kForms), [](const auto& form) {
  return std::string(form.param == Form::Leader   ? "Leader"
                     : form.param == Form::Bitmap ? "Bitmap"
                                                  : "FirstPick");
});

TEST_P(AnyGroup, RunsOneSequenceAndEnds) {
  const bool holds = rc::check("any group runs one sequence and ends", [&] {
    const Group group = draw_group(rapidcheck_draw(), GetParam());
    RC_LOG() << describe(group);
    RC_ASSERT(fault_in(group, run(group)) == "");
  });
  EXPECT_TRUE(holds);
}

TEST_P(AnyGroup, ThousandsOfFixedSeedsRunOneSequenceAndEnd) {
  std::uint64_t differed = 0;
  for (std::uint64_t seed = 0; seed < kScenarios; ++seed) {
    const Group group = draw_group(seeded_draw(seed), GetParam());
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + describe(group));
    Record record;
    ASSERT_NO_THROW(record = run(group));
    ASSERT_EQ(fault_in(group, record), "");
    for (const auto& members : record.agreements) differed += members[0].picks_differed;
  }
  EXPECT_GT(differed, kScenarios) << "the arrivals are skewed too little to tell the forms apart";
}

MakeHandGroup hand_group_of(Form form) {
  return [form](std::uint32_t members) { return std::make_unique<HandGroup>(form, members); };
}

RC_GTEST_PROP(CommonCandidate, TheLeaderDecidesWhereverATaskIsShared, ()) {
  check_attempts(rapidcheck_draw(), hand_group_of(Form::Leader));
}

RC_GTEST_PROP(CommonCandidate, AnAttemptDecidesIfItsSnapshotsShareATask, ()) {
  check_attempts(rapidcheck_draw(), hand_group_of(Form::Bitmap));
}

}  // namespace
}  // namespace sluice::test
