#include <dlpack/dlpack.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../../fake_cuda/controls.hpp"
#include "cuda/branched_stage.hpp"
#include "cuda/cached_chunk.hpp"
#include "cuda/left_on_device.hpp"
#include "sluice/cuda/cuda_executor.hpp"
#include "sluice/cuda/device.hpp"
#include "sluice/error.hpp"
#include "sluice/graphs/target_capture.hpp"
#include "sluice/host/steady_clock.hpp"

/// What can go wrong between captured graphs and the device: errors that say what and where, and nothing that
/// is left behind.
namespace sluice::graphs {
namespace {

using test::CachedChunk;
using ::testing::AllOf;
using ::testing::HasSubstr;

class BadInput : public ::testing::Test {
 protected:
  void SetUp() override {
    if (fakecuda_fail == nullptr) GTEST_SKIP() << "needs the fake device";
    cuda::use_device(0);
  }
  void TearDown() override {
    if (fakecuda_recover != nullptr) fakecuda_recover();
  }
};

/// The failure of an executor, for three slots, that launches through a cache of graphs.
std::string failure_of(CachedChunk& chunk, const Launch& launch, const std::function<void()>& before_launch) {
  const host::SteadyClock clock;
  cuda::CudaExecutor::Options options;
  options.rank = 1;
  cuda::CudaExecutor executor(clock, chunk.pipeline(), chunk.chunk(), 3, chunk.cache(), options);
  chunk.cache().capture_all(executor.board(), [&](const Launch& each) { return executor.place_of(each); });
  before_launch();
  executor.launch(launch);
  Done done;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!executor.poll(done) && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_EQ(done.status, Status::Failed);
  return executor.failure();
}

TEST_F(BadInput, AGraphThatIsNotLaunchedIsTheFailureOfItsTask) {
  const std::size_t before = test::left_on_device();
  {
    CachedChunk::Options options;
    options.cache.rank = 1;
    CachedChunk chunk(options);
    const std::string failure = failure_of(chunk, chunk.launch_of(Pass::Forward, 5, 1, false), [] {
      fakecuda_fail("cudaGraphLaunch", 1, cudaErrorLaunchOutOfResources);
    });
    EXPECT_THAT(failure, AllOf(HasSubstr("rank 1, launching the graph of F"), HasSubstr("microbatch 5"),
                               HasSubstr("in slot 1"), HasSubstr("cudaErrorLaunchOutOfResources")));
  }
  EXPECT_EQ(test::left_on_device(), before);
}

TEST_F(BadInput, ASlotThatNoMemoryIsForIsTheFailureOfItsTask) {
  const std::size_t before = test::left_on_device();
  {
    CachedChunk chunk({});
    EXPECT_THAT(failure_of(chunk, chunk.launch_of(Pass::Forward, 0, 2, false), [] {}),
                HasSubstr("slot 2 is not one of the 2 that have memory"));
  }
  EXPECT_EQ(test::left_on_device(), before);
}

TEST_F(BadInput, ADriverThatIsGoneOrTooOldIsToldBeforeAnythingIsMade) {
  const std::size_t before = test::left_on_device();
  CachedChunk chunk({});
  const std::size_t with_chunk = test::left_on_device();
  for (const int version : {0, 12040}) {
    fakecuda_driver_version(version);
    try {
      const host::SteadyClock clock;
      const cuda::CudaExecutor executor(clock, chunk.pipeline(), chunk.chunk(), 2, chunk.cache(), {});
      ADD_FAILURE() << "made";
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.field(), "device");
      EXPECT_THAT(error.what(), HasSubstr(version == 0 ? "there is no NVIDIA driver" : "update the driver"));
    }
    fakecuda_driver_version(CUDART_VERSION);
    EXPECT_EQ(test::left_on_device(), with_chunk);
  }
  EXPECT_GT(with_chunk, before);
}

std::vector<CaptureTarget> one_target() {
  TensorShape shape;
  shape.dtype_code = kDLFloat;
  shape.dtype_bits = 32;
  shape.rank = 1;
  shape.extent[0] = 16;
  test::BranchedStage::Options options;
  options.elements = 16;
  std::vector<CaptureTarget> targets(1);
  targets.front().name = "target";
  targets.front().inputs = targets.front().outputs = {shape};
  targets.front().stage = std::make_unique<test::BranchedStage>(options);
  return targets;
}

/// False if the capture fails, which then says that the memory ran out.
bool captures() {
  try {
    TargetCapture capture(one_target(), 1, {});
    capture.run();
    return true;
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cudaErrorMemoryAllocation"));
    return false;
  }
}

class FailingCall : public BadInput, public ::testing::WithParamInterface<const char*> {};

/// Whichever call of the function it is that fails.
TEST_P(FailingCall, InACaptureLeavesNothingBehind) {
  const std::size_t before = test::left_on_device();
  int failures = 0;
  for (int nth = 1;; nth += 1 + nth / 4) {
    fakecuda_fail(GetParam(), nth, cudaErrorMemoryAllocation);
    const bool captured = captures();
    fakecuda_recover();
    EXPECT_EQ(test::left_on_device(), before) << "call " << nth;
    if (captured) break;
    ++failures;
  }
  EXPECT_GT(failures, 0) << "never called";
}

INSTANTIATE_TEST_SUITE_P(Of, FailingCall,
                         ::testing::Values("cudaMalloc", "cudaHostAlloc", "cudaStreamCreateWithPriority",
                                           "cudaEventCreateWithFlags", "cudaEventRecord",
                                           "cudaStreamWaitEvent", "cudaStreamBeginCapture",
                                           "cudaStreamEndCapture", "cudaGraphInstantiate", "cudaGraphUpload",
                                           "cudaGraphLaunch", "cudaMemcpyAsync", "cudaMemsetAsync",
                                           "cudaLaunchKernelExC"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace sluice::graphs
