#include <gtest/gtest.h>

#include <functional>

#include "run_checks.hpp"
#include "scenario.hpp"

/// What the reservation rule is for: without it these families deadlock, with it the same scenarios end.
namespace sluice::test {
namespace {

constexpr Rules kWithoutReservation{true, true, false};
constexpr std::uint64_t kScenarios = 200;

Scenario scenario_of(const Draw& draw, Pipeline pipeline, const std::function<std::uint32_t(StageId)>& limit,
                     const std::function<Hint(StageId)>& hint) {
  Scenario scenario{std::move(pipeline), {}, {}};
  for (StageId stage = 0; stage < scenario.pipeline.stages(); ++stage) {
    scenario.limits.push_back(limit(stage));
    scenario.hints.push_back(hint(stage));
  }
  scenario.seed = draw(0, 1'000'000);
  return scenario;
}

/// Counts what deadlocks without the rule, and expects none with it.
std::uint64_t deadlocks_without_reservation(const std::function<Scenario(const Draw&)>& family) {
  std::uint64_t count = 0;
  for (std::uint64_t seed = 0; seed < kScenarios; ++seed) {
    Scenario scenario = family(seeded_draw(seed));
    EXPECT_EQ(fault_in(scenario, run(scenario)), "") << describe(scenario);
    scenario.rules = kWithoutReservation;
    count += deadlocks(scenario) ? 1 : 0;
  }
  return count;
}

TEST(Reservation, LimitsThatDifferByStageWithLateArrivalsDeadlockWithoutIt) {
  EXPECT_GT(deadlocks_without_reservation([](const Draw& draw) {
              const Pipeline pipeline = Pipeline::chain(4, 12);
              return scenario_of(
                  draw, pipeline, [](StageId stage) { return 4U - stage; },
                  [&](StageId stage) { return Hint::named("bf", pipeline, stage); });
            }),
            kScenarios / 10);
}

TEST(Reservation, ReversedHintsDeadlockWithoutIt) {
  EXPECT_GT(deadlocks_without_reservation([](const Draw& draw) {
              const Pipeline pipeline = Pipeline::chain(4, 12);
              const std::uint32_t smaller = draw(1, 3);
              return scenario_of(
                  draw, pipeline, [&](StageId stage) { return stage == 0 ? 4U : smaller; },
                  [&](StageId stage) {
                    return stage == 3 ? reversed_hint(pipeline, stage) : Hint::named("bf", pipeline, stage);
                  });
            }),
            kScenarios / 10);
}

TEST(Reservation, TwoEncodersWithDifferentHintsDeadlockWithoutIt) {
  EXPECT_GT(deadlocks_without_reservation([](const Draw& draw) {
              const std::array<std::uint32_t, 2> depths{1, 1};
              const Pipeline pipeline = Pipeline::joined(depths, 1, 12);
              const std::uint32_t limit = draw(1, 4);
              return scenario_of(
                  draw, pipeline, [&](StageId) { return limit; },
                  [&](StageId stage) {
                    return stage == 1 ? reversed_hint(pipeline, stage) : Hint::named("bf", pipeline, stage);
                  });
            }),
            kScenarios / 10);
}

TEST(Reservation, TwoChunksAStageDeadlockWithoutIt) {
  EXPECT_GT(deadlocks_without_reservation([](const Draw& draw) {
              const Pipeline pipeline = Pipeline::interleaved(draw(2, 4), 2, 12);
              return scenario_of(
                  draw, pipeline, [&](StageId) { return draw(2, 3); },
                  [&](StageId stage) { return draw_hint(draw, pipeline, stage); });
            }),
            kScenarios / 10);
}

TEST(Reservation, AVOfChunksDeadlocksWithoutIt) {
  EXPECT_GT(deadlocks_without_reservation([](const Draw& draw) {
              const Pipeline pipeline = Pipeline::v_shape(draw(2, 4), 12);
              return scenario_of(
                  draw, pipeline, [&](StageId) { return draw(2, 3); },
                  [&](StageId stage) { return draw_hint(draw, pipeline, stage); });
            }),
            kScenarios / 10);
}

TEST(Reservation, CostsNothingOnAUniformChain) {
  for (std::uint64_t seed = 0; seed < kScenarios; ++seed) {
    const Draw draw = seeded_draw(seed);
    const Pipeline pipeline = Pipeline::chain(draw(1, 6), 12, draw(0, 1) == 1);
    const std::uint32_t limit = draw(1, 12);
    Scenario scenario = scenario_of(
        draw, pipeline, [&](StageId) { return limit; },
        [&](StageId stage) { return Hint::named("bf", pipeline, stage); });
    scenario.delay_bits = 0;
    const Record with = run(scenario);
    scenario.rules = kWithoutReservation;
    EXPECT_EQ(sequences(with), sequences(run(scenario))) << describe(scenario);
  }
}

/// Random uniform limits under the published rules; every run must end.
void expect_paper_runs_end(const std::function<Pipeline(const Draw&)>& draw_shape) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const Draw draw = seeded_draw(seed);
    const Pipeline pipeline = draw_shape(draw);
    const std::uint32_t limit = chunks_on(pipeline, 0) - 1 + draw(1, 6);
    Scenario scenario = scenario_of(
        draw, pipeline, [&](StageId) { return limit; },
        [&](StageId stage) {
          return draw(0, 1) == 0 ? Hint::named("bf", pipeline, stage) : draw_hint(draw, pipeline, stage);
        });
    scenario.rules = Rules::paper();
    scenario.depth = draw(1, 3);
    scenario.delay_bits = draw(0, 12);
    ASSERT_EQ(fault_in(scenario, run(scenario)), "") << describe(scenario);
  }
}

TEST(PaperRules, AUniformChainEndsUnderAnyPositiveLimit) {
  expect_paper_runs_end(
      [](const Draw& draw) { return Pipeline::chain(draw(1, 6), draw(1, 12), draw(0, 1) == 1); });
}

TEST(PaperRules, SeveralChunksAStageEndUnderAnyLimitOfAtLeastTheirNumber) {
  expect_paper_runs_end([](const Draw& draw) {
    return Pipeline::interleaved(draw(1, 4), draw(2, 3), draw(1, 12), draw(0, 1) == 1);
  });
}

TEST(PaperRules, AVOfChunksEndsUnderAnyLimitOfAtLeastTwo) {
  expect_paper_runs_end(
      [](const Draw& draw) { return Pipeline::v_shape(draw(1, 4), draw(1, 12), draw(0, 1) == 1); });
}

}  // namespace
}  // namespace sluice::test
