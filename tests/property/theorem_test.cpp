#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

#include "scenario.hpp"
#include "sluice/sim/world.hpp"

/// Theorem 6.1 of arXiv 2605.18750: what BF takes at most on a chain of one chunk a stage without message
/// times, under the published rules.
namespace sluice::test {
namespace {

struct Instance {
  std::uint32_t stages = 1;
  Microbatch microbatches = 1;
  /// By stage and microbatch.
  std::vector<std::vector<std::int64_t>> forward, backward;

  [[nodiscard]] std::int64_t time(const Task& task) const {
    const auto& times = task.pass == Pass::Forward ? forward : backward;
    return times[task.chunk][task.microbatch];
  }
};

Instance draw_instance(const Draw& draw) {
  Instance instance;
  instance.stages = draw(1, 6);
  instance.microbatches = draw(1, 12);
  const std::uint32_t longest = draw(0, 1) == 0 ? 20 : 1000;
  for (auto* times : {&instance.forward, &instance.backward}) {
    times->assign(instance.stages, std::vector<std::int64_t>(instance.microbatches));
    for (auto& stage : *times) {
      for (std::int64_t& time : stage) time = draw(0, longest);
    }
  }
  return instance;
}

/// Makespan of a pipeline of one pass, in microbatch order, that enters at the first of the stages given.
std::int64_t one_way(const std::vector<std::vector<std::int64_t>>& times) {
  std::vector<std::int64_t> free(times.size(), 0);
  for (std::size_t m = 0; m < times.front().size(); ++m) {
    std::int64_t arrives = 0;
    for (std::size_t stage = 0; stage < times.size(); ++stage) {
      free[stage] = std::max(free[stage], arrives) + times[stage][m];
      arrives = free[stage];
    }
  }
  return free.back();
}

std::int64_t theorem_bound(const Instance& instance) {
  auto reversed = instance.backward;
  std::reverse(reversed.begin(), reversed.end());
  std::int64_t bound = one_way(instance.forward) + one_way(reversed);
  const auto slowest = [](const auto& times, Microbatch m) {
    std::int64_t most = 0;
    for (const auto& stage : times) most = std::max(most, stage[m]);
    return most;
  };
  for (Microbatch j = 1; j < instance.microbatches; ++j)
    bound += slowest(instance.forward, j) - instance.forward.back()[j];
  for (Microbatch j = 0; j + 1 < instance.microbatches; ++j)
    bound += slowest(instance.backward, j) - instance.backward.back()[j];
  return bound;
}

std::int64_t makespan(const Instance& instance) {
  const Pipeline pipeline = Pipeline::chain(instance.stages, instance.microbatches);
  std::vector<sim::StageSetup> setups;
  for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
    DispatcherConfig config;
    config.rank = config.stage = stage;
    config.limit = instance.microbatches;
    config.rules = Rules::paper();
    setups.push_back({config, Policy::readiness(Hint::named("bf", pipeline, stage))});
  }
  const auto time = [&](const Launch& launch) { return Duration{instance.time(launch.task)}; };
  sim::World world(pipeline, std::move(setups), {time});
  return world.run({0, IterationKind::Training}).count();
}

RC_GTEST_PROP(Theorem, BFTakesAtMostItsBound, ()) {
  const Instance instance = draw_instance(rapidcheck_draw());
  RC_ASSERT(makespan(instance) <= theorem_bound(instance));
}

TEST(Theorem, BFTakesAtMostItsBoundForThousandsOfSeeds) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const Instance instance = draw_instance(seeded_draw(seed));
    ASSERT_LE(makespan(instance), theorem_bound(instance)) << "seed " << seed;
  }
}

/// With equal times the sums vanish: BF takes no more than the two one-way pipelines together.
TEST(Theorem, ItsBoundIsMetWhereAllTimesAreEqual) {
  Instance instance{4, 8, {}, {}};
  instance.forward.assign(4, std::vector<std::int64_t>(8, 10));
  instance.backward.assign(4, std::vector<std::int64_t>(8, 20));
  EXPECT_EQ(theorem_bound(instance), (8 + 3) * 30);
  EXPECT_EQ(makespan(instance), (8 + 3) * 30);
}

}  // namespace
}  // namespace sluice::test
