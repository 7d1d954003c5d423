#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <vector>

#include "../../fake_cuda/controls.hpp"
#include "cuda/training_rank.hpp"
#include "scenario.hpp"

namespace sluice::cuda {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kIterations = 10'000;
constexpr std::size_t kMostEach = 25;
/// Of a device that is held up, which takes long.
constexpr std::size_t kMostDelayed = 2;

std::vector<Iteration> draw_iterations(const test::Draw& draw, std::size_t count) {
  std::vector<Iteration> iterations;
  for (std::size_t index = 0; index < count; ++index)
    iterations.push_back({index, draw(0, 4) == 0 ? IterationKind::ForwardOnly : IterationKind::Training});
  return iterations;
}

/// By one thread; the run ends before the weights grow beyond all bounds, where none could be told from
/// another.
std::vector<double> train(const Pipeline& pipeline, std::vector<Iteration>& iterations) {
  std::vector<double> weights = test::trained_by_one_thread(pipeline, iterations);
  while (!std::all_of(weights.begin(), weights.end(), [](double weight) { return std::isfinite(weight); })) {
    iterations.resize(iterations.size() / 2);
    weights = test::trained_by_one_thread(pipeline, iterations);
  }
  return weights;
}

/// Call by call on half of the ranks; else by graphs captured before the run or in it, the latter at times
/// with room for few, so that they push each other out.
void draw_code(const test::Draw& draw, test::DeviceTraining& training) {
  std::vector<test::DeviceCode> codes;
  for (StageId stage = 0; stage < training.pipeline.stages(); ++stage) {
    const std::uint32_t drawn = draw(0, 3);
    codes.push_back(drawn < 2    ? test::DeviceCode::Eager
                    : drawn == 2 ? test::DeviceCode::Captured
                                 : test::DeviceCode::CapturedUnmet);
  }
  const bool captured = std::ranges::count(codes, test::DeviceCode::Captured) > 0;
  training.cache.most_graphs = captured ? 0 : draw(0, 3);
  training.cache.warm_ups = 0;
  training.code_of = [codes](StageId stage) { return codes[stage]; };
}

/// Any pipeline, limits and hints, call by call and by graphs, with and without a device that is held up at
/// random: no run stands still, and every one trains what one thread does.
TEST(AnyCudaRun, TenThousandRandomIterationsEndAndTrainWhatOneThreadDoes) {
  std::size_t ran = 0;
  std::uint64_t launched = 0;
  for (std::uint64_t seed = 0; ran < kIterations; ++seed) {
    const test::Draw draw = test::seeded_draw(seed);
    const test::Scenario scenario = test::draw_scenario(draw);
    const bool delayed = fakecuda_delay_us != nullptr && seed % 8 == 7;
    test::DeviceTraining training(scenario.pipeline,
                                  draw_iterations(draw, delayed ? kMostDelayed : kMostEach));
    const std::vector<double> expected = train(scenario.pipeline, training.iterations);
    training.policy_of = [&](StageId stage) { return Policy::readiness(scenario.hints[stage]); };
    training.settings.limits = scenario.limits;
    training.settings.rules = scenario.rules;
    training.settings.poll_interval = 20us;
    training.executor.depth = scenario.depth;
    draw_code(draw, training);
    if (delayed) fakecuda_delay_us(20);
    const test::Trained trained = test::train_by_threads(training);
    ASSERT_EQ(trained.weights, expected) << "seed " << seed << ": " << test::describe(scenario);
    if (delayed) fakecuda_delay_us(0);
    for (const test::GraphUse& graphs : trained.graphs) launched += graphs.launches;
    ran += training.iterations.size();
  }
  EXPECT_GT(launched, kIterations) << "few of the tasks were graphs";
}

}  // namespace
}  // namespace sluice::cuda
