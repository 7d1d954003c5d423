#include "sluice/graphs/capture_error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../../fake_cuda/controls.hpp"
#include "cuda/cached_chunk.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/graphs/graph_cache.hpp"

namespace sluice::graphs {
namespace {

using test::CachedChunk;
using test::StageFault;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// What goes wrong with the fault, and how it is told.
struct Refusal {
  StageFault fault;
  cudaError_t code;
  CaptureKey key;
  std::vector<std::string> told;
};

/// A branch that is not joined races when it is run, so that it is only captured.
GraphCache::Options two_lanes(StageFault fault) {
  GraphCache::Options options;
  if (fault == StageFault::LeavesBranch) options.warm_ups = 0;
  options.rank = 3;
  options.lanes = {Lane::Compute, Lane::Compute, Lane::WeightGrad};
  return options;
}

class RefusedCapture : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusedCapture, SaysWhichTaskAndWhatToDo) {
  const Refusal& refusal = GetParam();
  CachedChunk chunk({.slots = 2, .split = true, .fault = refusal.fault, .cache = two_lanes(refusal.fault)});
  try {
    chunk.capture();
    FAIL() << "captured";
  } catch (const CaptureError& error) {
    EXPECT_EQ(error.key(), refusal.key) << error.what();
    EXPECT_EQ(error.code(), refusal.code) << error.what();
    EXPECT_EQ(error.rank(), 3U);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 3"), HasSubstr(to_string(refusal.key))));
    for (const std::string& text : refusal.told) EXPECT_THAT(error.what(), HasSubstr(text));
  }
}

TEST_P(RefusedCapture, LeavesNothingBehind) {
  CachedChunk chunk(
      {.slots = 2, .split = true, .fault = GetParam().fault, .cache = two_lanes(GetParam().fault)});
  const std::vector<float> before = chunk.stage().weight_gradient();
  EXPECT_THROW(chunk.capture(), CaptureError);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  EXPECT_EQ(chunk.stage().weight_gradient(), before);
  for (const CapturedTask& task : chunk.cache().captured()) EXPECT_NE(task.key, GetParam().key);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 16), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  chunk.stage().set_fault(StageFault::None);
  chunk.capture();
  EXPECT_EQ(chunk.cache().captured().size(), chunk.cache().tasks().size());
}

const CaptureKey kForward{1, Pass::Forward, false, 0};
const CaptureKey kBackward{1, Pass::Backward, false, 0};
const CaptureKey kWeightGrad{1, Pass::WeightGrad, false, 0};

INSTANTIATE_TEST_SUITE_P(
    GraphCache, RefusedCapture,
    ::testing::Values(
        Refusal{StageFault::BakesHostValue, cudaSuccess, kForward, {"verifying", "prepare_task"}},
        Refusal{StageFault::CountsCalls, cudaSuccess, kWeightGrad, {"two runs call by call", "state 0"}},
        Refusal{StageFault::ReadsOldTemporary, cudaSuccess, kForward, {"verifying", "temporary memory"}},
        Refusal{StageFault::ForeignTemporary, cudaSuccess, kWeightGrad, {"verifying", "compute lane"}},
        Refusal{StageFault::LeavesBranch,
                cudaErrorStreamCaptureUnjoined,
                kForward,
                {"capturing", "cudaErrorStreamCaptureUnjoined", "record an event"}},
        Refusal{StageFault::Synchronises,
                cudaErrorStreamCaptureUnsupported,
                kForward,
                {"capturing", "waiting for a layer", "prepare_task"}},
        Refusal{StageFault::SynchronisesUnheard,
                cudaErrorStreamCaptureInvalidated,
                kForward,
                {"capturing", "cannot be captured"}},
        Refusal{StageFault::Allocates,
                cudaErrorStreamCaptureUnsupported,
                kBackward,
                {"capturing", "allocates with cudaMalloc"}},
        Refusal{StageFault::Queries, cudaErrorStreamCaptureUnsupported, kForward, {"capturing", "asking"}},
        Refusal{StageFault::Throws, cudaSuccess, kForward, {"warming up", "no such layer"}}));

TEST(CaptureError, AStageThatThrowsIsToldWithItsWords) {
  GraphCache::Options options;
  options.warm_ups = 0;
  CachedChunk chunk({.slots = 1, .fault = StageFault::Throws, .cache = options});
  try {
    chunk.capture();
    FAIL() << "captured";
  } catch (const CaptureError& error) {
    EXPECT_STREQ(error.what(), "rank 0, capturing F(chunk 1, slot 0): no such layer");
  }
}

TEST(CaptureError, AWrongReplayPassesWithinTheTolerance) {
  GraphCache::Options options;
  options.tolerance = 1;
  CachedChunk chunk({.slots = 1, .split = true, .fault = StageFault::CountsCalls, .cache = options});
  chunk.capture();
  const CapturedTask& task = chunk.cache().captured().back();
  EXPECT_GT(task.verification.max_rel_error, 0);
  EXPECT_FALSE(task.verification.deterministic);
}

/// Plants a failure in the runtime; only the fake can.
class RefusingRuntime : public ::testing::Test {
 protected:
  void SetUp() override {
    if (fakecuda_fail == nullptr) GTEST_SKIP() << "needs the fake device";
  }
};

TEST_F(RefusingRuntime, MemoryThatRunsOutIsTold) {
  CachedChunk chunk({.slots = 2});
  fakecuda_fail("cudaGraphInstantiate", 2, cudaErrorMemoryAllocation);
  try {
    chunk.capture();
    FAIL() << "captured";
  } catch (const CaptureError& error) {
    EXPECT_EQ(error.code(), cudaErrorMemoryAllocation);
    EXPECT_EQ(error.key(), (CaptureKey{1, Pass::Backward, true, 0}));
    EXPECT_THAT(error.what(), AllOf(HasSubstr("instantiating"), HasSubstr("lower the limit")));
  }
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  EXPECT_EQ(chunk.cache().captured().size(), 1U);
  chunk.capture();
  EXPECT_EQ(chunk.cache().captured().size(), 8U);
}

TEST_F(RefusingRuntime, MemoryForTheRunsThatVerifyIsTold) {
  CachedChunk chunk({.slots = 2});
  fakecuda_fail("cudaMalloc", 1, cudaErrorMemoryAllocation);
  try {
    chunk.capture();
    FAIL() << "captured";
  } catch (const CaptureError& error) {
    EXPECT_EQ(error.code(), cudaErrorMemoryAllocation);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("preparing F(chunk 1, slot 0)"), HasSubstr("lower the limit")));
  }
}

TEST_F(RefusingRuntime, ALaunchThatFailsNamesTheTask) {
  CachedChunk chunk({.slots = 2});
  chunk.capture();
  chunk.arrive(5, 1, 64);
  fakecuda_fail("cudaGraphLaunch", 1, cudaErrorLaunchOutOfResources);
  try {
    chunk.run(chunk.cache(), chunk.launch_of(Pass::Forward, 5, 1, false));
    FAIL() << "launched";
  } catch (const cuda::CudaError& error) {
    EXPECT_EQ(error.code(), cudaErrorLaunchOutOfResources);
    EXPECT_THAT(error.what(), HasSubstr("launching the graph of F(chunk 1, microbatch 5) in slot 1"));
  }
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  cuda::check(cudaStreamSynchronize(chunk.stream()), "waiting for what prepared the task");
  chunk.run(chunk.cache(), chunk.launch_of(Pass::Forward, 5, 1, false));
}

TEST_F(RefusingRuntime, NoGraphIsLeftAfterwards) {
  const std::size_t graphs = fakecuda_live("graphs");
  const std::size_t executable = fakecuda_live("executable graphs");
  const std::size_t memory = fakecuda_live("allocations");
  {
    CachedChunk chunk(
        {.slots = 2, .fault = StageFault::LeavesBranch, .cache = two_lanes(StageFault::LeavesBranch)});
    EXPECT_THROW(chunk.capture(), CaptureError);
    chunk.stage().set_fault(StageFault::None);
    chunk.capture();
    chunk.capture();
  }
  EXPECT_EQ(fakecuda_live("graphs"), graphs);
  EXPECT_EQ(fakecuda_live("executable graphs"), executable);
  EXPECT_EQ(fakecuda_live("allocations"), memory);
}

}  // namespace
}  // namespace sluice::graphs
