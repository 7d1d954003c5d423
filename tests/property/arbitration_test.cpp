#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <memory>

#include "naive_arbiter.hpp"
#include "scenario.hpp"

namespace sluice::test {
namespace {

/// Runs a scenario with every decision compared; what differed.
std::vector<std::string> differences(const Scenario& scenario) {
  std::vector<std::string> found;
  StaggeredWorld world(scenario.pipeline, setups_of(scenario), surroundings_of(scenario), [&](StageId stage) {
    return std::make_unique<ComparedAgreement>(
        NaiveArbiter(scenario.pipeline, stage, scenario.hints[stage], scenario.lanes), found);
  });
  (void)world.run(scenario.iterations);
  return found;
}

RC_GTEST_PROP(Arbitration, EqualsAScanOfTheHintList, ()) {
  const Scenario scenario = draw_scenario(rapidcheck_draw());
  RC_LOG() << describe(scenario);
  RC_ASSERT(differences(scenario) == std::vector<std::string>{});
}

TEST(Arbitration, EqualsAScanOfTheHintListInThousandsOfRuns) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const Scenario scenario = draw_scenario(seeded_draw(seed));
    ASSERT_EQ(differences(scenario), std::vector<std::string>{})
        << "seed " << seed << ": " << describe(scenario);
  }
}

/// The tasks of a stage in any order, some of them taken back on the way, leaving `kept`.
Arbiter arbiter_after(const StageTasks& tasks, const Hint& hint, const std::vector<Task>& kept,
                      const Draw& draw) {
  Arbiter arbiter(tasks, hint);
  std::vector<Task> order = kept;
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[draw(0, static_cast<std::uint32_t>(i) - 1)]);
  for (const Task& task : order) {
    const Task passing = tasks.task(static_cast<Pass>(draw(0, 2)), draw(0, tasks.size() - 1));
    if (!arbiter.contains(passing)) {
      arbiter.insert(passing);
      arbiter.erase(passing);
    }
    arbiter.insert(task);
  }
  return arbiter;
}

RC_GTEST_PROP(Arbitration, DependsOnlyOnWhatIsRunnableAndOnTheRound, ()) {
  const Draw draw = rapidcheck_draw();
  const Pipeline pipeline = draw_pipeline(draw, static_cast<Shape>(draw(0, kShapes - 1)));
  const StageTasks tasks(pipeline, 0);
  const Hint hint = draw_hint(draw, pipeline, 0);
  std::vector<Task> runnable;
  for (std::uint32_t index = 0; index < tasks.size(); ++index) {
    if (const std::uint32_t pass = draw(0, 3); pass < kPasses)
      runnable.push_back(tasks.task(static_cast<Pass>(pass), index));
  }
  Arbiter one = arbiter_after(tasks, hint, runnable, draw);
  Arbiter other = arbiter_after(tasks, hint, runnable, draw);
  for (std::size_t left = runnable.size(); left > 0; --left) {
    const std::optional<Task> task = one.candidate();
    for (std::uint32_t polls = draw(0, 2); polls > 0; --polls) RC_ASSERT(other.candidate() == task);
    RC_ASSERT(other.candidate() == task);
    RC_ASSERT(task.has_value());
    one.decided(*task);
    other.decided(*task);
  }
  RC_ASSERT(!one.candidate().has_value());
}

}  // namespace
}  // namespace sluice::test
