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

std::vector<double> trained_on_devices(const Method& method, const std::vector<Iteration>& iterations) {
  const Pipeline& pipeline = method.pipeline;
  test::DeviceTraining training(pipeline, iterations);
  training.policy_of = [&](StageId stage) {
    return Policy::readiness(Hint::named(method.hint, pipeline, stage));
  };
  training.settings.limit = method.limit;
  training.settings.poll_interval = 20us;
  training.executor.depth = method.depth;
  training.executor.completion = method.completion;
  return test::trained_by_threads(training);
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
