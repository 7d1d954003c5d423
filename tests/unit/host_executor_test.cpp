#include "sluice/host/host_executor.hpp"

#include <dlpack/dlpack.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "dlpack_tensor.hpp"
#include "sluice/error.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::host {
namespace {

using namespace std::chrono_literals;
using test::make_tensor;
using test::make_vector;
using ::testing::HasSubstr;

constexpr std::uint32_t kSlots = 4;

/// User code made of the functions a test gives it.
class Scripted final : public Stage {
 public:
  void prepare(std::uint32_t slots) override {
    prepared_with = slots;
    ++prepared;
    if (on_prepare) on_prepare();
  }
  void forward(const TaskContext& context, std::span<Payload> inputs, std::span<Payload> outputs) override {
    if (on_forward) on_forward(context, inputs, outputs);
  }
  void backward(const TaskContext& context, bool whole, std::span<Payload> output_grads,
                std::span<Payload> input_grads) override {
    if (on_backward) on_backward(context, whole, output_grads, input_grads);
  }
  void weight_grad(const TaskContext& context) override {
    if (on_weight_grad) on_weight_grad(context);
  }
  [[nodiscard]] TensorShape output_shape(std::size_t /*position*/) const override { return declared; }

  std::function<void()> on_prepare;
  std::function<void(const TaskContext&, std::span<Payload>, std::span<Payload>)> on_forward;
  std::function<void(const TaskContext&, bool, std::span<Payload>, std::span<Payload>)> on_backward;
  std::function<void(const TaskContext&)> on_weight_grad;
  TensorShape declared;
  std::atomic<int> prepared{0};
  std::uint32_t prepared_with = 0;
};

/// The middle stage of three.
class HostExecutorTest : public ::testing::Test {
 protected:
  void make(std::uint32_t depth = 1) {
    executor_.emplace(pipeline_, StageId{1}, std::vector<Stage*>{&stage_}, buffers_, wake_,
                      HostExecutor::Options{1, depth});
  }

  void make_lent(std::uint32_t depth) {
    executor_.emplace(pipeline_, StageId{1}, std::vector<Stage*>{&stage_}, buffers_, wake_,
                      HostExecutor::Options{1, depth, 60s, true});
  }

  Done run(const Launch& launch) {
    if (!executor_) make();
    executor_->launch(launch);
    return wait();
  }
  Done wait() {
    Done done;
    while (!executor_->poll(done)) wake_.wait_until(SteadyClock().now() + 1s);
    return done;
  }
  static Launch launch(Pass pass, Microbatch microbatch = 2, Slot slot = 3) {
    return {{microbatch, 1, pass}, 5, slot, Lane::Compute, pass == Pass::Backward};
  }
  void fail_forward_with(std::function<void()> thrower) {
    stage_.on_forward = [thrower = std::move(thrower)](auto&&...) { thrower(); };
  }
  void expect_failure(Pass pass, const std::string& text) {
    EXPECT_EQ(run(launch(pass)).status, Status::Failed);
    EXPECT_THAT(executor_->failure(), HasSubstr(text));
  }

  Pipeline pipeline_ = Pipeline::chain(3, 8, true);
  Scripted stage_;
  SlotBuffers buffers_{pipeline_, 1, kSlots};
  EventWake wake_;
  std::optional<HostExecutor> executor_;
};

TEST_F(HostExecutorTest, RefusesTheWrongNumberOfStages) {
  try {
    const HostExecutor executor(pipeline_, 1, {}, buffers_, wake_, {});
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "stages");
    EXPECT_THAT(error.what(), HasSubstr("stage 1"));
  }
}

TEST_F(HostExecutorTest, PreparesOnceWithTheNumberOfSlotsOnTheWorkersThread) {
  std::thread::id preparing;
  std::thread::id running;
  stage_.on_prepare = [&] { preparing = std::this_thread::get_id(); };
  stage_.on_weight_grad = [&](const TaskContext&) { running = std::this_thread::get_id(); };
  run(launch(Pass::WeightGrad));
  run(launch(Pass::WeightGrad));
  EXPECT_EQ(stage_.prepared, 1);
  EXPECT_EQ(stage_.prepared_with, kSlots);
  EXPECT_EQ(preparing, running);
  EXPECT_NE(running, std::this_thread::get_id());
}

TEST_F(HostExecutorTest, AbortsWithTheTaskIfUserCodeNeverReturns) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto never_return = [this] {
    std::atomic<bool> begun{false};
    stage_.on_forward = [&begun](auto&&...) {
      begun = true;
      for (EventWake nobody;;) nobody.wait_until(SteadyClock().now() + 1s);
    };
    HostExecutor executor(pipeline_, 1, {&stage_}, buffers_, wake_, {1, 1, 20ms});
    executor.launch(launch(Pass::Forward));
    while (!begun) std::this_thread::yield();
  };
  EXPECT_DEATH(never_return(), "rank 1, F\\(chunk 1, microbatch 2\\): has not returned for 0.02 s");
}

TEST_F(HostExecutorTest, TellsTheStageWhatItRuns) {
  TaskContext seen;
  stage_.on_forward = [&](const TaskContext& context, auto&&...) { seen = context; };
  Launch forward = launch(Pass::Forward, 7, 2);
  forward.forward_only = true;
  run(forward);
  EXPECT_EQ(seen.rank, 1U);
  EXPECT_EQ(seen.iteration, 5U);
  EXPECT_EQ(seen.microbatch, 7U);
  EXPECT_EQ(seen.slot, 2U);
  EXPECT_TRUE(seen.forward_only);
}

TEST_F(HostExecutorTest, HandsTheSlotsTensorsOverAndKeepsTheOutputs) {
  buffers_[3].inputs[0].push_back(make_vector({5}));
  const void* given = test::elements_of(buffers_[3].inputs[0][0]).data();
  const void* seen = nullptr;
  stage_.on_forward = [&](const TaskContext&, std::span<Payload> inputs, std::span<Payload> outputs) {
    seen = test::elements_of(inputs[0][0]).data();
    outputs[0].push_back(make_vector({10}));
  };
  EXPECT_EQ(run(launch(Pass::Forward)).status, Status::Ok);
  EXPECT_EQ(seen, given);
  EXPECT_EQ(test::elements_of(buffers_[3].outputs[0].at(0))[0], 10);
}

TEST_F(HostExecutorTest, OutputsOfAnEarlierMicrobatchAreGoneBeforeTheStageIsCalled) {
  buffers_[3].outputs[0].push_back(make_vector({1}));
  std::size_t left = 99;
  stage_.on_forward = [&](const TaskContext&, std::span<Payload>, std::span<Payload> outputs) {
    left = outputs[0].size();
  };
  run(launch(Pass::Forward));
  EXPECT_EQ(left, 0U);
}

TEST_F(HostExecutorTest, ABackwardGetsTheGradientsAndFreesWhatItUsed) {
  const std::int64_t before = test::live_tensors();
  buffers_[3].inputs[0].push_back(make_vector({5}));
  run(launch(Pass::Forward));
  buffers_[3].output_grads[0].push_back(make_vector({7}));
  bool was_whole = false;
  stage_.on_backward = [&](const TaskContext&, bool whole, std::span<Payload> output_grads,
                           std::span<Payload> input_grads) {
    was_whole = whole;
    input_grads[0].push_back(make_vector({test::elements_of(output_grads[0][0])[0] * 2}));
  };
  EXPECT_EQ(run(launch(Pass::Backward)).status, Status::Ok) << executor_->failure();
  EXPECT_TRUE(was_whole);
  EXPECT_EQ(test::elements_of(buffers_[3].input_grads[0].at(0))[0], 14);
  EXPECT_EQ(test::live_tensors(), before + 1) << "only the input's gradient is left";
}

TEST_F(HostExecutorTest, AForwardOnlyIterationKeepsNoInputs) {
  const std::int64_t before = test::live_tensors();
  buffers_[3].inputs[0].push_back(make_vector({5}));
  Launch forward = launch(Pass::Forward);
  forward.forward_only = true;
  run(forward);
  EXPECT_EQ(test::live_tensors(), before);
}

TEST_F(HostExecutorTest, AnExceptionIsAFailureWithItsText) {
  fail_forward_with([] { throw std::runtime_error("no more memory"); });
  EXPECT_EQ(run(launch(Pass::Forward)).status, Status::Failed);
  EXPECT_EQ(executor_->failure(), "no more memory");
}

TEST_F(HostExecutorTest, AnExceptionWithoutATextIsAFailureToo) {
  fail_forward_with([] { throw std::runtime_error(""); });
  expect_failure(Pass::Forward, "without a text");
}

TEST_F(HostExecutorTest, SomethingThrownThatIsNoExceptionIsAFailureToo) {
  fail_forward_with([] { throw 5; });
  expect_failure(Pass::Forward, "unknown type");
}

TEST_F(HostExecutorTest, AFailedPrepareFailsTheFirstTask) {
  stage_.on_prepare = [] { throw std::runtime_error("no device"); };
  expect_failure(Pass::Forward, "no device");
}

TEST_F(HostExecutorTest, AFailureTellsTheTaskAndItsSlot) {
  fail_forward_with([] { throw std::runtime_error("x"); });
  const Done done = run(launch(Pass::Forward, 6, 1));
  EXPECT_EQ(done.task, (Task{6, 1, Pass::Forward}));
  EXPECT_EQ(done.slot, 1U);
}

TEST_F(HostExecutorTest, NothingRunsAfterAFailureAndItsCauseStays) {
  make(3);
  std::atomic<int> calls{0};
  stage_.on_forward = [&](const TaskContext& context, auto&&...) {
    ++calls;
    throw std::runtime_error("microbatch " + std::to_string(context.microbatch));
  };
  for (Microbatch m = 0; m < 3; ++m) executor_->launch(launch(Pass::Forward, m, m));
  for (Microbatch m = 0; m < 3; ++m) {
    EXPECT_EQ(wait().status, Status::Failed);
    EXPECT_EQ(executor_->failure(), "microbatch 0");
  }
  EXPECT_EQ(calls, 1);
}

TEST_F(HostExecutorTest, AnOutputOfTheWrongShapeIsAFailureThatNamesBoth) {
  stage_.declared.dtype_code = kDLFloat;
  stage_.declared.dtype_bits = 64;
  stage_.declared.rank = 2;
  stage_.declared.extent[0] = stage_.declared.extent[1] = 3;
  stage_.on_forward = [](const TaskContext&, std::span<Payload>, std::span<Payload> outputs) {
    outputs[0].push_back(make_tensor({2, 3}, std::vector<double>(6)));
  };
  EXPECT_EQ(run(launch(Pass::Forward)).status, Status::Failed);
  EXPECT_EQ(executor_->failure(), "output 0 has shape float64[2, 3], expected float64[3, 3]");
}

TEST_F(HostExecutorTest, AMissingOutputIsAFailureWhereAShapeIsDeclared) {
  stage_.declared.dtype_bits = 64;
  expect_failure(Pass::Forward, "output 0 has 0 tensors, expected 1");
}

TEST_F(HostExecutorTest, AnEmptyTensorIsAFailure) {
  stage_.on_forward = [](const TaskContext&, std::span<Payload>, std::span<Payload> outputs) {
    outputs[0].emplace_back(nullptr);
  };
  expect_failure(Pass::Forward, "empty tensor");
}

TEST_F(HostExecutorTest, AnInputGradientOfTheWrongShapeIsAFailureThatNamesBoth) {
  buffers_[3].inputs[0].push_back(make_vector({1, 2}));
  run(launch(Pass::Forward));
  stage_.on_backward = [](const TaskContext&, bool, std::span<Payload>, std::span<Payload> input_grads) {
    input_grads[0].push_back(make_vector({1, 2, 3}));
  };
  EXPECT_EQ(run(launch(Pass::Backward)).status, Status::Failed);
  EXPECT_EQ(executor_->failure(), "gradient of input 0 has shape float64[3], expected float64[2]");
}

TEST_F(HostExecutorTest, AMissingInputGradientIsAFailure) {
  buffers_[3].inputs[0].push_back(make_vector({1}));
  run(launch(Pass::Forward));
  expect_failure(Pass::Backward, "gradient of input 0 has 0 tensors, expected 1");
}

TEST_F(HostExecutorTest, InputsMayBeMovedFrom) {
  buffers_[3].inputs[0].push_back(make_vector({1, 2}));
  Payload kept;
  stage_.on_forward = [&](const TaskContext&, std::span<Payload> inputs, auto&&) {
    kept = std::move(inputs[0]);
  };
  run(launch(Pass::Forward));
  stage_.on_backward = [&](const TaskContext&, bool, std::span<Payload>, std::span<Payload> input_grads) {
    input_grads[0].push_back(make_vector({3, 4}));
  };
  EXPECT_EQ(run(launch(Pass::Backward)).status, Status::Ok) << executor_->failure();
  EXPECT_EQ(test::elements_of(kept.at(0))[1], 2);
}

TEST_F(HostExecutorTest, LaunchingAheadRunsOneTaskAtATime) {
  make(4);
  std::atomic<int> inside{0};
  std::atomic<bool> overlapped{false};
  stage_.on_forward = [&](auto&&...) {
    if (++inside != 1) overlapped = true;
    std::this_thread::yield();
    --inside;
  };
  for (Microbatch m = 0; m < 4; ++m) executor_->launch(launch(Pass::Forward, m, m));
  EXPECT_EQ(executor_->room(Lane::Compute), 0U);
  EXPECT_EQ(executor_->room(Lane::WeightGrad), 0U) << "all lanes share the one worker";
  for (Microbatch m = 0; m < 4; ++m) EXPECT_EQ(wait().task.microbatch, m);
  EXPECT_FALSE(overlapped);
}

TEST_F(HostExecutorTest, DestructionWaitsForTheRunningTaskAndDropsTheRest) {
  make(4);
  std::atomic<bool> entered{false};
  std::atomic<bool> release{false};
  std::atomic<int> began{0};
  std::atomic<int> ended{0};
  stage_.on_forward = [&](auto&&...) {
    ++began;
    entered = true;
    while (!release) std::this_thread::yield();
    ++ended;
  };
  for (Microbatch m = 0; m < 4; ++m) executor_->launch(launch(Pass::Forward, m, m));
  while (!entered) std::this_thread::yield();
  std::thread destroyer([&] { executor_.reset(); });
  release = true;
  destroyer.join();
  EXPECT_GE(began, 1);
  EXPECT_EQ(ended, began);
}

TEST_F(HostExecutorTest, ALentThreadRunsWhatWasLaunched) {
  make_lent(2);
  std::vector<std::thread::id> ran_on;
  stage_.on_forward = [&](auto&&...) { ran_on.push_back(std::this_thread::get_id()); };
  executor_->launch(launch(Pass::Forward, 0, 0));
  executor_->launch(launch(Pass::Forward, 1, 1));
  Done done;
  EXPECT_FALSE(executor_->poll(done)) << "nothing runs by itself";
  EXPECT_TRUE(executor_->run_one(kNever));
  ASSERT_TRUE(executor_->poll(done));
  EXPECT_EQ(done.task.microbatch, 0U);
  EXPECT_FALSE(executor_->poll(done));
  EXPECT_TRUE(executor_->run_one(kNever));
  ASSERT_TRUE(executor_->poll(done));
  EXPECT_EQ(done.task.microbatch, 1U);
  EXPECT_EQ(ran_on, std::vector(2, std::this_thread::get_id()));
}

TEST_F(HostExecutorTest, ALentThreadWaitsUntilTheDeadlineOrForAWord) {
  make_lent(1);
  EXPECT_FALSE(executor_->run_one(SteadyClock().now()));
  std::thread caller([&] { executor_->stop_waiting(); });
  EXPECT_FALSE(executor_->run_one(kNever));
  caller.join();
}

TEST_F(HostExecutorTest, ALentThreadIsWokenByALaunch) {
  make_lent(1);
  std::thread rank([&] { executor_->launch(launch(Pass::Forward)); });
  EXPECT_TRUE(executor_->run_one(kNever));
  rank.join();
  Done done;
  EXPECT_TRUE(executor_->poll(done));
}

TEST_F(HostExecutorTest, AnExceptionOnALentThreadFailsTheTask) {
  make_lent(1);
  fail_forward_with([] { throw std::runtime_error("lost its way"); });
  executor_->launch(launch(Pass::Forward));
  EXPECT_TRUE(executor_->run_one(kNever));
  Done done;
  ASSERT_TRUE(executor_->poll(done));
  EXPECT_EQ(done.status, Status::Failed);
  EXPECT_THAT(executor_->failure(), HasSubstr("lost its way"));
}

TEST_F(HostExecutorTest, MayBeDestroyedWithoutHavingRunAnything) {
  make();
  executor_.reset();
  EXPECT_EQ(stage_.prepared, 0);
}

}  // namespace
}  // namespace sluice::host
