#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "../../fake_cuda/controls.hpp"
#include "cuda/training_rank.hpp"

/// Whole pipelines on a device, rank by rank in threads of their own: the executor, its slots and the
/// transport between them train to the last bit what one thread does on the host.
namespace sluice::cuda {
namespace {

using namespace std::chrono_literals;

struct Method {
  std::string name;
  Pipeline pipeline;
  std::string hint;
  std::uint32_t limit = 4;
  std::uint32_t depth = 2;
  CudaExecutor::Completion completion = CudaExecutor::Completion::Flags;
};

test::DeviceTraining training_of(const Method& method, const std::vector<Iteration>& iterations) {
  const Pipeline& pipeline = method.pipeline;
  test::DeviceTraining training(pipeline, iterations);
  training.policy_of = [&](StageId stage) {
    return Policy::readiness(Hint::named(method.hint, pipeline, stage));
  };
  training.settings.limit = method.limit;
  training.settings.poll_interval = 20us;
  training.executor.depth = method.depth;
  training.executor.completion = method.completion;
  return training;
}

std::vector<double> trained_on_devices(const Method& method, const std::vector<Iteration>& iterations) {
  return test::trained_by_threads(training_of(method, iterations));
}

/// All of it by graphs that were captured before.
std::vector<double> trained_by_graphs(const Method& method, const std::vector<Iteration>& iterations) {
  test::DeviceTraining training = training_of(method, iterations);
  training.code_of = [](StageId) { return test::DeviceCode::Captured; };
  const test::Trained trained = test::train_by_threads(training);
  for (StageId stage = 0; stage < method.pipeline.stages(); ++stage) {
    const test::GraphUse& graphs = trained.graphs[stage];
    const std::size_t passes = method.pipeline.split_backward() ? 3 : 2;
    const std::size_t tasks =
        method.pipeline.chunks_of(stage).size() * method.pipeline.microbatches() * passes;
    EXPECT_GE(graphs.fewest_nodes, 20U);
    EXPECT_EQ(graphs.unverified, 0U);
    EXPECT_EQ(graphs.eager, 0U);
    EXPECT_EQ(graphs.launches, tasks * iterations.size());
  }
  return trained.weights;
}

class CudaPipeline : public ::testing::TestWithParam<Method> {
 protected:
  void TearDown() override {
    if (fakecuda_delay_us != nullptr) fakecuda_delay_us(0);
  }
};

TEST_P(CudaPipeline, TrainsWhatOneThreadDoes) {
  const std::vector<Iteration> iterations{{0}, {1}, {2}};
  EXPECT_EQ(trained_on_devices(GetParam(), iterations),
            test::trained_by_one_thread(GetParam().pipeline, iterations));
}

TEST_P(CudaPipeline, AlsoWhereTheDeviceIsHeldUpAtRandom) {
  if (fakecuda_delay_us == nullptr) GTEST_SKIP() << "needs the fake device";
  const std::vector<Iteration> iterations{{0}, {1}};
  fakecuda_delay_us(100);
  EXPECT_EQ(trained_on_devices(GetParam(), iterations),
            test::trained_by_one_thread(GetParam().pipeline, iterations));
}

TEST_P(CudaPipeline, TrainsTheSameByCapturedGraphs) {
  const std::vector<Iteration> iterations{{0}, {1}, {2}};
  EXPECT_EQ(trained_by_graphs(GetParam(), iterations),
            test::trained_by_one_thread(GetParam().pipeline, iterations));
}

TEST_P(CudaPipeline, AlsoByGraphsOnADeviceThatIsHeldUp) {
  if (fakecuda_delay_us == nullptr) GTEST_SKIP() << "needs the fake device";
  const std::vector<Iteration> iterations{{0}, {1}};
  fakecuda_delay_us(20);
  EXPECT_EQ(trained_by_graphs(GetParam(), iterations),
            test::trained_by_one_thread(GetParam().pipeline, iterations));
}

/// Call by call, by graphs captured before, and by graphs that are captured while others run.
TEST_P(CudaPipeline, AlsoWhereEachRankGetsItsWorkOnTheDeviceInItsOwnWay) {
  const std::vector<Iteration> iterations{{0}, {1}, {2}};
  test::DeviceTraining training = training_of(GetParam(), iterations);
  training.code_of = [](StageId stage) { return static_cast<test::DeviceCode>((stage + 1) % 3); };
  EXPECT_EQ(test::trained_by_threads(training), test::trained_by_one_thread(GetParam().pipeline, iterations));
}

std::vector<Method> methods() {
  const std::uint32_t encoders[] = {1, 1};
  return {{"Chain", Pipeline::chain(4, 8), "bf"},
          {"ChainByEvents", Pipeline::chain(4, 8), "fb", 3, 1, CudaExecutor::Completion::Events},
          {"Split", Pipeline::chain(4, 8, true), "bfw"},
          {"Interleaved", Pipeline::interleaved(4, 2, 6), "bf"},
          {"VShapeSplit", Pipeline::v_shape(4, 5, true), "bfw", 4, 3},
          {"TwoEncoders", Pipeline::joined(encoders, 2, 6), "b-priority"}};
}

INSTANTIATE_TEST_SUITE_P(Of, CudaPipeline, ::testing::ValuesIn(methods()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace sluice::cuda
