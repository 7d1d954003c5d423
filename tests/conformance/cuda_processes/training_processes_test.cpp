#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "../../fake_cuda/controls.hpp"
#include "cuda/training_rank.hpp"
#include "forked_ranks.hpp"
#include "sluice/cuda/device.hpp"

/// Whole pipelines on devices, each rank a process: they train to the last bit what one thread does on the
/// host. The process of the tests must not use CUDA itself.
namespace sluice::cuda {
namespace {

using namespace std::chrono_literals;

struct Method {
  std::string name;
  Pipeline pipeline;
  std::string hint;
};

/// A stage's weights as its process leaves them.
struct Weights {
  static constexpr std::size_t kMostChunks = 8;
  double of_chunk[kMostChunks];
};

std::vector<double> trained_by_processes(const Method& method, const std::vector<Iteration>& iterations,
                                         int delay_us) {
  const Pipeline& pipeline = method.pipeline;
  test::DeviceTraining training(pipeline, iterations);
  training.policy_of = [&](StageId stage) {
    return Policy::readiness(Hint::named(method.hint, pipeline, stage));
  };
  training.settings.limit = 4;
  training.settings.poll_interval = 20us;
  const test::SharedMapping shared(sizeof(Weights));
  test::ForkedRanks ranks(pipeline.stages(), [&](process::Bootstrap& bootstrap) {
    use_device(0);
    if (fakecuda_delay_us != nullptr) fakecuda_delay_us(delay_us);
    test::SharedWatch watch;
    test::TrainingRank rank(training, bootstrap, watch);
    rank.run();
    const std::vector<double> own = rank.weights();
    const auto chunks = pipeline.chunks_of(static_cast<StageId>(bootstrap.rank()));
    for (std::size_t i = 0; i < chunks.size(); ++i) shared.as<Weights>()->of_chunk[chunks[i]] = own[i];
    return 0;
  });
  for (const test::Ending& ending : ranks.wait(100s)) EXPECT_EQ(ending.code, 0) << "signal " << ending.signal;
  const double* weights = shared.as<Weights>()->of_chunk;
  return {weights, weights + pipeline.chunks()};
}

class TrainingProcesses : public ::testing::TestWithParam<Method> {};

TEST_P(TrainingProcesses, TrainWhatOneThreadDoes) {
  const std::vector<Iteration> iterations{{0}, {1, IterationKind::ForwardOnly}, {2}, {3}};
  EXPECT_EQ(trained_by_processes(GetParam(), iterations, 0),
            test::trained_by_one_thread(GetParam().pipeline, iterations));
}

TEST_P(TrainingProcesses, AlsoWhereTheDeviceIsHeldUpAtRandom) {
  if (fakecuda_delay_us == nullptr) GTEST_SKIP() << "needs the fake device";
  const std::vector<Iteration> iterations{{0}, {1}};
  EXPECT_EQ(trained_by_processes(GetParam(), iterations, 100),
            test::trained_by_one_thread(GetParam().pipeline, iterations));
}

std::vector<Method> methods() {
  return {{"BackwardsFirst", Pipeline::chain(4, 8), "bf"},
          {"ForwardsFirst", Pipeline::chain(4, 8), "fb"},
          {"Split", Pipeline::chain(4, 8, true), "bfw"},
          {"VShapeSplit", Pipeline::v_shape(4, 5, true), "bfw"}};
}

INSTANTIATE_TEST_SUITE_P(Of, TrainingProcesses, ::testing::ValuesIn(methods()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace sluice::cuda
