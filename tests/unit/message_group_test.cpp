#include "sluice/sim/message_group.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sluice/pipeline.hpp"
#include "sluice/sim/world.hpp"

namespace sluice::sim {
namespace {

using agree::Form;

class FormsInAWorld : public testing::TestWithParam<Form> {
 protected:
  static std::vector<StageSetup> setups_of(const Pipeline& pipeline, const std::string& method,
                                           const Rules& rules) {
    std::vector<StageSetup> setups;
    std::vector<Policy> fixed;
    if (method == "1f1b") fixed = Policy::fixed(Schedule::one_f_one_b(pipeline), pipeline, rules);
    for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
      DispatcherConfig config;
      config.rank = config.stage = stage;
      config.rules = rules;
      setups.push_back(
          {config, fixed.empty() ? Policy::readiness(Hint::named(method, pipeline, stage)) : fixed[stage]});
    }
    return setups;
  }

  /// Rank 1 of each group sees every message `late` later.
  static Surroundings surroundings(std::uint32_t size, Duration hop, Duration late) {
    Surroundings around;
    around.task_time = [](const Launch& launch) {
      return Duration{launch.task.pass == Pass::Backward && launch.whole ? 20 : 10};
    };
    around.message_delay = [late](const Transit& transit) { return transit.member * late; };
    around.group = {size, GroupRule::CommonCandidate, hop, GetParam()};
    return around;
  }

  /// Messages from the last rank that asks to the last that knows.
  static int hops() { return GetParam() == Form::Leader ? 2 : 1; }
};

INSTANTIATE_TEST_SUITE_P(Forms, FormsInAWorld, testing::ValuesIn(agree::kForms), [](const auto& form) {
  return form.param == Form::Leader ? "Leader" : form.param == Form::Bitmap ? "Bitmap" : "FirstPick";
});

TEST_P(FormsInAWorld, WithoutSkewAndLatencyAGroupIsOneRank) {
  const Pipeline pipeline = Pipeline::chain(4, 16);
  for (const std::string method : {"1f1b", "bf", "fb"}) {
    World alone(pipeline, setups_of(pipeline, method, Rules::paper()), Surroundings(surroundings(1, {}, {})));
    World group(pipeline, setups_of(pipeline, method, Rules::paper()), surroundings(3, {}, {}));
    EXPECT_EQ(alone.run({}), group.run({})) << method;
    EXPECT_EQ(group.report(1).agreement.count(), 0);
  }
}

/// A stage without work in reserve, whose ranks ask at the same time: every task waits for the messages.
TEST_P(FormsInAWorld, AgreeingCostsItsMessagesForEveryTaskAndIsAccountedFor) {
  const Pipeline pipeline = Pipeline::chain(1, 10);
  World world(pipeline, setups_of(pipeline, "bf", Rules::paper()), surroundings(2, Duration{3}, {}));
  EXPECT_EQ(world.run({}).count(), 10 * (10 + 20) + 20 * 3 * hops());
  const StageReport report = world.report(0);
  EXPECT_EQ(report.compute.count(), 300);
  EXPECT_EQ(report.agreement.count(), 60 * hops());
  EXPECT_EQ(report.blocked.count(), 0);
  EXPECT_EQ(report.decisions, 20U);
  EXPECT_EQ(report.deferrals, 0U);
  EXPECT_EQ(world.agreement_statistics(0, 1).idle.count(), 60 * hops()) << "as the rank itself measures it";
}

TEST_P(FormsInAWorld, AgreeingWhileTheDeviceComputesCostsNothing) {
  const Pipeline pipeline = Pipeline::chain(1, 10);
  Surroundings around = surroundings(2, Duration{3}, {});
  around.depth = 2;
  World world(pipeline, setups_of(pipeline, "bf", Rules::paper()), around);
  EXPECT_EQ(world.run({}).count(), 3 * hops() + 10 * (10 + 20)) << "only the first task waits";
  EXPECT_EQ(world.report(0).agreement.count(), 3 * hops());
  EXPECT_EQ(world.report(0).blocked.count(), 0);
}

/// Iterations follow each other; each counts for itself.
TEST_P(FormsInAWorld, EveryIterationIsReportedForItself) {
  const Pipeline pipeline = Pipeline::chain(3, 6);
  World world(pipeline, setups_of(pipeline, "bf", Rules::paper()),
              surroundings(2, Duration{3}, Duration{15}));
  const Duration first = world.run({0});
  const StageReport report = world.report(1);
  EXPECT_EQ(report.decisions, 12U);
  EXPECT_EQ(world.run({7}), first);
  EXPECT_EQ(world.report(1).decisions, 12U);
  EXPECT_EQ(world.report(1).agreement, report.agreement);
  EXPECT_EQ(world.report(1).deferrals, report.deferrals);
}

TEST_P(FormsInAWorld, AFixedOrderSendsNothing) {
  const Pipeline pipeline = Pipeline::chain(4, 16);
  World slow(pipeline, setups_of(pipeline, "1f1b", {}), surroundings(2, Duration{100}, {}));
  World alone(pipeline, setups_of(pipeline, "1f1b", {}), surroundings(1, {}, {}));
  EXPECT_EQ(slow.run({}), alone.run({}));
  EXPECT_EQ(slow.report(1).decisions, 0U);
}

}  // namespace
}  // namespace sluice::sim
