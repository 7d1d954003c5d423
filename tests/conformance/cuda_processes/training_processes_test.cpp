#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "../../fake_cuda/controls.hpp"
#include "cuda/left_on_device.hpp"
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

/// What the processes leave.
struct Left {
  static constexpr std::size_t kMost = 8;
  double weight[kMost];          ///< by chunk
  test::GraphUse graphs[kMost];  ///< by rank
  std::size_t alive[kMost];      ///< not destroyed; by rank
};

/// One rank of a run, from its first use of the device to its last.
void train_rank(const test::DeviceTraining& training, process::Bootstrap& bootstrap, Left& left) {
  use_device(0);
  test::SharedWatch watch;
  test::TrainingRank rank(training, bootstrap, watch);
  rank.run();
  const std::vector<double> own = rank.weights();
  const auto chunks = training.pipeline.chunks_of(static_cast<StageId>(bootstrap.rank()));
  for (std::size_t i = 0; i < chunks.size(); ++i) left.weight[chunks[i]] = own[i];
  left.graphs[bootstrap.rank()] = rank.graph_use();
}

struct Settings {
  test::DeviceCode code = test::DeviceCode::Eager;
  int delay_us = 0;
};

std::vector<double> trained_by_processes(const Method& method, const std::vector<Iteration>& iterations,
                                         const Settings& settings) {
  const Pipeline& pipeline = method.pipeline;
  test::DeviceTraining training(pipeline, iterations);
  training.policy_of = [&](StageId stage) {
    return Policy::readiness(Hint::named(method.hint, pipeline, stage));
  };
  training.code_of = [&](StageId) { return settings.code; };
  training.settings.limit = 4;
  training.settings.poll_interval = 20us;
  const test::SharedMapping shared(sizeof(Left));
  Left& left = *shared.as<Left>();
  test::ForkedRanks ranks(pipeline.stages(), [&](process::Bootstrap& bootstrap) {
    if (fakecuda_delay_us != nullptr) fakecuda_delay_us(settings.delay_us);
    train_rank(training, bootstrap, left);
    left.alive[bootstrap.rank()] = test::left_on_device();
    return fakecuda_take_reports != nullptr && fakecuda_take_reports() != 0 ? 1 : 0;
  });
  for (const test::Ending& ending : ranks.wait(100s)) EXPECT_EQ(ending.code, 0) << "signal " << ending.signal;
  for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
    EXPECT_EQ(left.alive[stage], 0U) << "rank " << stage;
    if (settings.code == test::DeviceCode::Eager) continue;
    EXPECT_GE(left.graphs[stage].fewest_nodes, 20U);
    EXPECT_EQ(left.graphs[stage].unverified, 0U);
    EXPECT_EQ(left.graphs[stage].eager, 0U);
    EXPECT_GT(left.graphs[stage].launches, left.graphs[stage].captures);
  }
  return {left.weight, left.weight + pipeline.chunks()};
}

class TrainingProcesses : public ::testing::TestWithParam<Method> {};

TEST_P(TrainingProcesses, TrainWhatOneThreadDoes) {
  const std::vector<Iteration> iterations{{0}, {1, IterationKind::ForwardOnly}, {2}, {3}};
  EXPECT_EQ(trained_by_processes(GetParam(), iterations, {}),
            test::trained_by_one_thread(GetParam().pipeline, iterations));
}

TEST_P(TrainingProcesses, AlsoWhereTheDeviceIsHeldUpAtRandom) {
  if (fakecuda_delay_us == nullptr) GTEST_SKIP() << "needs the fake device";
  const std::vector<Iteration> iterations{{0}, {1}};
  EXPECT_EQ(trained_by_processes(GetParam(), iterations, {test::DeviceCode::Eager, 100}),
            test::trained_by_one_thread(GetParam().pipeline, iterations));
}

TEST_P(TrainingProcesses, TrainTheSameByCapturedGraphs) {
  const std::vector<Iteration> iterations{{0}, {1, IterationKind::ForwardOnly}, {2}, {3}};
  EXPECT_EQ(trained_by_processes(GetParam(), iterations, {test::DeviceCode::Captured}),
            test::trained_by_one_thread(GetParam().pipeline, iterations));
}

TEST_P(TrainingProcesses, AlsoByGraphsOnADeviceThatIsHeldUp) {
  if (fakecuda_delay_us == nullptr) GTEST_SKIP() << "needs the fake device";
  const std::vector<Iteration> iterations{{0}, {1}};
  EXPECT_EQ(trained_by_processes(GetParam(), iterations, {test::DeviceCode::Captured, 20}),
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
