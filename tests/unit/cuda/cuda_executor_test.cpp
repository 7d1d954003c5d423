#include "sluice/cuda/cuda_executor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../../fake_cuda/controls.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/error.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::cuda {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::uint32_t kSlots = 4;

/// Marks the start and the end of a task, and between them does what a test says.
class Scripted final : public TaskCode {
 public:
  void enqueue(const Launch& launch, std::uint32_t place, const CompletionBoard& board,
               cudaStream_t stream) override {
    ++enqueued;
    board.enqueue_start(place, stream);
    if (work) work(launch, stream);
    if (marks_end) board.enqueue_end(place, stream);
  }

  std::function<void(const Launch&, cudaStream_t)> work;
  bool marks_end = true;
  int enqueued = 0;
};

/// A stream that stands until the gate is opened.
class Gate {
 public:
  ~Gate() { open(); }
  void hold(cudaStream_t stream) {
    const auto stand = [](void* gate) {
      while (!static_cast<Gate*>(gate)->open_.load(std::memory_order_acquire))
        std::this_thread::sleep_for(100us);
    };
    check(cudaLaunchHostFunc(stream, stand, this), "holding a stream");
  }
  void open() { open_.store(true, std::memory_order_release); }

 private:
  std::atomic<bool> open_{false};
};

Launch task(Pass pass, Microbatch microbatch = 0, Slot slot = 0, Lane lane = Lane::Compute) {
  return {{microbatch, 1, pass}, 5, slot, lane};
}

/// The middle stage of three, with completion by flags and by events.
class CudaExecutorTest : public ::testing::TestWithParam<CudaExecutor::Completion> {
 protected:
  CudaExecutor& make(CudaExecutor::Options options = {}) {
    options.rank = 1;
    options.completion = GetParam();
    return executor_.emplace(clock_, pipeline_, StageId{1}, kSlots, code_, options);
  }
  Done wait() {
    Done done;
    const Time limit = clock_.now() + 1min;
    while (!executor_->poll(done)) {
      if (clock_.now() > limit) throw std::runtime_error("nothing ends");
      std::this_thread::sleep_for(20us);
    }
    return done;
  }
  void expect_failure(const Task& task, const std::string& text) {
    const Done done = wait();
    EXPECT_EQ(done.task, task);
    EXPECT_EQ(done.status, Status::Failed);
    EXPECT_THAT(executor_->failure(), HasSubstr(text));
  }

  host::SteadyClock clock_;
  Pipeline pipeline_ = Pipeline::chain(3, 8, true);
  Scripted code_;
  Gate gate_;
  std::optional<CudaExecutor> executor_;
};

INSTANTIATE_TEST_SUITE_P(By, CudaExecutorTest,
                         ::testing::Values(CudaExecutor::Completion::Flags, CudaExecutor::Completion::Events),
                         [](const auto& tested) {
                           return tested.param == CudaExecutor::Completion::Flags ? "Flags" : "Events";
                         });

TEST_P(CudaExecutorTest, RefusesADeviceThatIsNotThere) {
  CudaExecutor::Options options;
  options.device = 4711;
  try {
    make(options);
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "device");
  }
}

TEST_P(CudaExecutorTest, TheTimesOfATaskLieBetweenItsLaunchAndItsPoll) {
  make();
  Time last{};
  for (Microbatch m = 0; m < 8; ++m) {
    const Time launched = clock_.now();
    executor_->launch(task(Pass::Forward, m, m % kSlots));
    const Done done = wait();
    EXPECT_LE(launched, done.started + 1us) << "the device's timer may go in steps of so much";
    EXPECT_LE(done.started, done.ended);
    EXPECT_LE(last, done.started);
    EXPECT_LE(done.ended, clock_.now());
    last = done.ended;
  }
}

TEST_P(CudaExecutorTest, LanesDoNotWaitForOneAnother) {
  make();
  gate_.hold(executor_->stream(Lane::Compute));
  executor_->launch(task(Pass::Forward, 0, 0));
  executor_->launch(task(Pass::WeightGrad, 1, 1, Lane::WeightGrad));
  EXPECT_EQ(wait().task.pass, Pass::WeightGrad);
  Done done;
  EXPECT_FALSE(executor_->poll(done));
  EXPECT_EQ(executor_->next_deadline(), kAnyTime);
  gate_.open();
  EXPECT_EQ(wait().task.pass, Pass::Forward);
  EXPECT_EQ(executor_->next_deadline(), kNever);
}

TEST_P(CudaExecutorTest, WhatIsSentToOtherRanksGoesFirst) {
  make();
  int lowest = 0;
  int highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "asking for the priorities");
  int compute = 0;
  int reduction = 0;
  check(cudaStreamGetPriority(executor_->stream(Lane::Compute), &compute), "asking for a priority");
  check(cudaStreamGetPriority(executor_->stream(Lane::Reduction), &reduction), "asking for a priority");
  EXPECT_EQ(compute, lowest);
  EXPECT_EQ(reduction, highest);
}

TEST_P(CudaExecutorTest, MayBeUsedByAnotherThreadThanItsMaker) {
  make();
  std::thread user([&] {
    executor_->launch(task(Pass::Forward));
    EXPECT_EQ(wait().status, Status::Ok);
  });
  user.join();
}

TEST_P(CudaExecutorTest, PollingDisturbsNoCapture) {
  CudaExecutor::Options options;
  options.error_interval = 0ns;
  make(options);
  gate_.hold(executor_->stream(Lane::Compute));
  executor_->launch(task(Pass::Forward));
  const Stream stream = make_stream();
  const DeviceMemory memory(16, "a test");
  check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal), "capturing");
  std::thread poller([&] {
    Done done;
    for (int i = 0; i < 10; ++i) EXPECT_FALSE(executor_->poll(done));
  });
  poller.join();
  check(cudaMemsetAsync(memory.data(), 1, 16, stream.get()), "filling");
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream.get(), &graph), cudaSuccess);
  const Graph owned(graph);
  gate_.open();
  EXPECT_EQ(wait().status, Status::Ok);
}

TEST_P(CudaExecutorTest, AnExceptionIsAFailureThatNamesTheTask) {
  make();
  code_.work = [](const Launch&, cudaStream_t) { throw std::runtime_error("no such kernel"); };
  executor_->launch(task(Pass::Backward, 3, 2));
  expect_failure({3, 1, Pass::Backward}, "launching B(chunk 1, microbatch 3): no such kernel");
}

TEST_P(CudaExecutorTest, AnErrorOfTheRuntimeIsAFailureAndLeavesNoneBehind) {
  make();
  code_.work = [](const Launch&, cudaStream_t stream) {
    check(cudaMemcpyAsync(nullptr, nullptr, 8, cudaMemcpyDeviceToDevice, stream), "copying nothing");
  };
  executor_->launch(task(Pass::Forward, 2, 1));
  expect_failure({2, 1, Pass::Forward}, "copying nothing: cudaError");
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_P(CudaExecutorTest, SomethingThrownThatIsNoExceptionIsAFailureToo) {
  make();
  code_.work = [](const Launch&, cudaStream_t) { throw 5; };
  executor_->launch(task(Pass::Forward));
  expect_failure({0, 1, Pass::Forward}, "unknown type");
}

TEST_P(CudaExecutorTest, ASlotThatTheStageDoesNotHaveIsAFailure) {
  make();
  executor_->launch(task(Pass::Forward, 0, kSlots));
  expect_failure({0, 1, Pass::Forward}, "slot 4 is not one of the stage's 4");
  EXPECT_EQ(code_.enqueued, 0);
}

TEST_P(CudaExecutorTest, NothingIsLaunchedAfterAFailureAndItsCauseStays) {
  CudaExecutor::Options options;
  options.depth = 3;
  make(options);
  code_.work = [](const Launch& launch, cudaStream_t) {
    if (launch.task.microbatch == 1) throw std::runtime_error("no more");
  };
  for (Microbatch m = 0; m < 3; ++m) executor_->launch(task(Pass::Forward, m, m));
  EXPECT_EQ(wait().status, Status::Ok) << "it was launched before";
  expect_failure({1, 1, Pass::Forward}, "microbatch 1): no more");
  expect_failure({2, 1, Pass::Forward}, "microbatch 1): no more");
  EXPECT_EQ(code_.enqueued, 2);
}

TEST_P(CudaExecutorTest, TheDestructorWaitsForTheDevice) {
  make();
  std::atomic<bool> ran{false};
  code_.work = [&](const Launch&, cudaStream_t stream) {
    const auto note = [](void* flag) { static_cast<std::atomic<bool>*>(flag)->store(true); };
    check(cudaLaunchHostFunc(stream, note, &ran), "enqueuing a function");
  };
  gate_.hold(executor_->stream(Lane::Compute));
  executor_->launch(task(Pass::Forward));
  std::thread destroyer([&] { executor_.reset(); });
  gate_.open();
  destroyer.join();
  EXPECT_TRUE(ran);
}

TEST_P(CudaExecutorTest, AbortsWithTheTaskIfTheDeviceNeverEndsIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto never_end = [this] {
    CudaExecutor::Options options;
    options.grace = 20ms;
    make(options);
    gate_.hold(executor_->stream(Lane::Compute));
    executor_->launch(task(Pass::Forward, 2, 1));
    executor_.reset();
  };
  EXPECT_DEATH(never_end(), "rank 1, F\\(chunk 1, microbatch 2\\): has not ended on device 0 for 0.02 s");
}

TEST_P(CudaExecutorTest, ADeviceThatIsLostFailsTheTaskItRan) {
  if (fakecuda_fail == nullptr) GTEST_SKIP() << "needs the fake device";
  CudaExecutor::Options options;
  options.error_interval = 0ns;
  options.depth = 3;
  make(options);
  gate_.hold(executor_->stream(Lane::Compute));
  executor_->launch(task(Pass::Forward, 4, 0));
  executor_->launch(task(Pass::Backward, 3, 1));
  fakecuda_fail(GetParam() == CudaExecutor::Completion::Flags ? "cudaStreamQuery" : "cudaEventQuery", 1,
                cudaErrorIllegalAddress);
  expect_failure({4, 1, Pass::Forward},
                 "running F(chunk 1, microbatch 4) on device 0: cudaErrorIllegalAddress");
  expect_failure({3, 1, Pass::Backward}, "running F(chunk 1, microbatch 4)");
  // Nothing runs any more on a device that is really lost; on this one the end of the work can be waited for.
  fakecuda_recover();
  gate_.open();
  executor_.reset();
}

TEST_P(CudaExecutorTest, AKernelThatIsNotLaunchedIsAFailureOfItsTask) {
  if (fakecuda_fail == nullptr) GTEST_SKIP() << "needs the fake device";
  make();
  fakecuda_fail("cudaLaunchKernelExC", 2, cudaErrorLaunchOutOfResources);
  executor_->launch(task(Pass::WeightGrad, 2, 1));
  expect_failure({2, 1, Pass::WeightGrad},
                 "W(chunk 1, microbatch 2): marking the end of a task: cudaErrorLaunch");
}

/// What exists on the fake device and was not destroyed.
std::vector<std::size_t> everything_alive() {
  std::vector<std::size_t> counts;
  for (const char* kind : {"allocations", "host allocations", "streams", "events"})
    counts.push_back(fakecuda_live(kind));
  return counts;
}

TEST_P(CudaExecutorTest, LeavesNothingOnTheDevice) {
  if (fakecuda_live == nullptr) GTEST_SKIP() << "needs the fake device";
  const std::vector<std::size_t> before = everything_alive();
  make();
  EXPECT_NE(everything_alive(), before);
  executor_->launch(task(Pass::Forward));
  wait();
  executor_.reset();
  EXPECT_EQ(everything_alive(), before);
}

TEST_P(CudaExecutorTest, LeavesNothingWhereItCannotBeMade) {
  if (fakecuda_live == nullptr) GTEST_SKIP() << "needs the fake device";
  const std::vector<std::size_t> before = everything_alive();
  const auto expect_refused = [&](const char* function, int nth) {
    fakecuda_fail(function, nth, cudaErrorMemoryAllocation);
    EXPECT_THROW(make(), CudaError) << function;
    EXPECT_EQ(everything_alive(), before) << function;
  };
  expect_refused("cudaHostAlloc", 1);
  expect_refused("cudaMalloc", 1);
  expect_refused("cudaLaunchKernelExC", 3);
  expect_refused("cudaStreamCreateWithPriority", 3);
  if (GetParam() == CudaExecutor::Completion::Events) expect_refused("cudaEventCreateWithFlags", 4);
}

/// What only the flags tell.
class CudaExecutorFlags : public CudaExecutorTest {};
INSTANTIATE_TEST_SUITE_P(By, CudaExecutorFlags, ::testing::Values(CudaExecutor::Completion::Flags));

TEST_P(CudaExecutorFlags, WorkThatEndsWithoutAMarkIsFoundOut) {
  CudaExecutor::Options options;
  options.error_interval = 1ms;
  make(options);
  code_.marks_end = false;
  executor_->launch(task(Pass::Forward, 6, 3));
  expect_failure({6, 1, Pass::Forward}, "has not marked the end");
}

class CudaExecutorEvents : public CudaExecutorTest {};
INSTANTIATE_TEST_SUITE_P(By, CudaExecutorEvents, ::testing::Values(CudaExecutor::Completion::Events));

TEST_P(CudaExecutorEvents, NeedNoMarks) {
  make();
  code_.marks_end = false;
  for (Microbatch m = 0; m < 2; ++m) {
    const Time launched = clock_.now();
    executor_->launch(task(Pass::Forward, m, 0));
    const Done done = wait();
    EXPECT_EQ(done.status, Status::Ok);
    EXPECT_LE(launched, done.started);
    EXPECT_LE(done.started, done.ended);
    EXPECT_LE(done.ended, clock_.now());
  }
}

TEST(CudaExecutorPlaces, EveryTaskOfASlotHasItsOwn) {
  const Pipeline pipeline = Pipeline::interleaved(2, 2, 4, true);
  const host::SteadyClock clock;
  Scripted code;
  const CudaExecutor executor(clock, pipeline, 1, kSlots, code, {});
  const std::uint32_t places = CudaExecutor::places(pipeline, 1, kSlots);
  EXPECT_EQ(places, 2 * 3 * kSlots);
  EXPECT_EQ(executor.board().places(), places);
  std::set<std::uint32_t> seen;
  for (const Chunk chunk : pipeline.chunks_of(1)) {
    for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::WeightGrad}) {
      for (Slot slot = 0; slot < kSlots; ++slot) {
        const std::uint32_t place = executor.place_of({{7, chunk, pass}, 0, slot});
        EXPECT_LT(place, places);
        EXPECT_TRUE(seen.insert(place).second);
      }
    }
  }
}

}  // namespace
}  // namespace sluice::cuda
