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

/// Any pipeline, limits and hints, with and without a device that is held up at random: no run stands still,
/// and every one trains what one thread does.
TEST(AnyCudaRun, TenThousandRandomIterationsEndAndTrainWhatOneThreadDoes) {
  std::size_t ran = 0;
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
    if (delayed) fakecuda_delay_us(20);
    ASSERT_EQ(test::trained_by_threads(training), expected)
        << "seed " << seed << ": " << test::describe(scenario);
    if (delayed) fakecuda_delay_us(0);
    ran += training.iterations.size();
  }
}

}  // namespace
}  // namespace sluice::cuda
