#include <dlpack/dlpack.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "arithmetic_stage.hpp"
#include "dlpack_tensor.hpp"
#include "sluice/error.hpp"
#include "sluice/host/threaded_run.hpp"

/// A run that fails: all ranks stop, the error names rank, task and cause, and nothing is left behind.
namespace sluice::host {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::uint32_t kRanks = 3;
constexpr Microbatch kMicrobatches = 6;

/// Does as an ArithmeticStage, but for one task.
class Faulty final : public test::ArithmeticStage {
 public:
  enum class Fault { None, Throws, WrongShape, Blocks };

  using ArithmeticStage::ArithmeticStage;

  void forward(const TaskContext& context, std::span<Payload> inputs, std::span<Payload> outputs) override {
    before(context, Pass::Forward);
    ArithmeticStage::forward(context, inputs, outputs);
    if (hit(context, Pass::Forward) && fault == Fault::WrongShape) outputs[0][0] = test::make_vector({1, 2});
  }
  void backward(const TaskContext& context, bool whole, std::span<Payload> output_grads,
                std::span<Payload> input_grads) override {
    before(context, Pass::Backward);
    ArithmeticStage::backward(context, whole, output_grads, input_grads);
    if (hit(context, Pass::Backward) && fault == Fault::WrongShape)
      input_grads[0][0] = test::make_vector({1, 2});
  }
  void weight_grad(const TaskContext& context) override {
    before(context, Pass::WeightGrad);
    ArithmeticStage::weight_grad(context);
  }

  Fault fault = Fault::None;
  Pass pass = Pass::Forward;
  Microbatch microbatch = 3;
  std::atomic<bool> released{false};

 private:
  [[nodiscard]] bool hit(const TaskContext& context, Pass running) const {
    return running == pass && context.microbatch == microbatch;
  }
  void before(const TaskContext& context, Pass running) {
    if (!hit(context, running)) return;
    if (fault == Fault::Throws) throw std::runtime_error("the stage broke");
    while (fault == Fault::Blocks && !released) std::this_thread::sleep_for(1ms);
  }
};

class ThreadedRunFailure : public ::testing::Test {
 protected:
  ThreadedRunFailure() {
    for (Chunk chunk = 0; chunk < kRanks; ++chunk)
      stages_.push_back(std::make_unique<Faulty>(pipeline_, chunk));
  }
  ~ThreadedRunFailure() override {
    for (const auto& stage : stages_) stage->released = true;
  }

  Faulty& break_chunk(Chunk chunk, Faulty::Fault fault, Pass pass) {
    stages_[chunk]->fault = fault;
    stages_[chunk]->pass = pass;
    return *stages_[chunk];
  }
  [[nodiscard]] Workload workload() const {
    Workload workload;
    for (const auto& stage : stages_) workload.stages.push_back(stage.get());
    return workload;
  }
  [[nodiscard]] ThreadedRun::PolicyOf policy() const {
    return [this](StageId stage) { return Policy::readiness(Hint::named("bfw", pipeline_, stage)); };
  }
  /// The failure, and that a second iteration is refused.
  template <typename Expected>
  std::string failure_of(ThreadedRun& run) {
    std::string text = "no failure";
    try {
      run.run({0});
    } catch (const Expected& error) {
      text = error.what();
    } catch (const std::exception& error) {
      text = std::string("another exception: ") + error.what();
    }
    EXPECT_TRUE(run.failed());
    EXPECT_THROW(run.run({1}), Aborted);
    return text;
  }
  void expect_task_error(Chunk chunk, Faulty::Fault fault, Pass pass, const std::string& cause) {
    break_chunk(chunk, fault, pass);
    for (const std::uint32_t depth : {1U, 3U}) {
      RunSettings options;
      options.depth = depth;
      ThreadedRun run(pipeline_, policy(), workload(), options);
      EXPECT_THAT(failure_of<TaskError>(run),
                  AllOf(HasSubstr("rank " + std::to_string(chunk)),
                        HasSubstr(to_string(Task{3, chunk, pass})), HasSubstr(cause)));
    }
    stages_[chunk]->fault = Faulty::Fault::None;
  }

  Pipeline pipeline_ = Pipeline::chain(kRanks, kMicrobatches, true);
  std::vector<std::unique_ptr<Faulty>> stages_;
};

TEST_F(ThreadedRunFailure, AStageThatThrowsInAnyPassOnAnyRank) {
  const std::int64_t before = test::live_tensors();
  for (Chunk chunk = 0; chunk < kRanks; ++chunk) {
    for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::WeightGrad}) {
      expect_task_error(chunk, Faulty::Fault::Throws, pass, "the stage broke");
    }
  }
  EXPECT_EQ(test::live_tensors(), before) << "nothing is left behind";
}

TEST_F(ThreadedRunFailure, AnOutputOfTheWrongShape) {
  for (const Chunk chunk : {Chunk{0}, Chunk{1}}) {
    expect_task_error(chunk, Faulty::Fault::WrongShape, Pass::Forward,
                      "output 0 has shape float64[2], expected float64[1]");
  }
}

TEST_F(ThreadedRunFailure, AGradientOfTheWrongShape) {
  for (Chunk chunk = 1; chunk < kRanks; ++chunk) {
    expect_task_error(chunk, Faulty::Fault::WrongShape, Pass::Backward,
                      "gradient of input 0 has shape float64[2], expected float64[1]");
  }
}

TEST_F(ThreadedRunFailure, AHookThatThrowsBeforeAnIteration) {
  Workload hooked = workload();
  hooked.before_iteration = [](std::uint32_t rank, const Iteration&) {
    if (rank == 1) throw std::runtime_error("no batch for rank 1");
  };
  ThreadedRun run(pipeline_, policy(), hooked, {});
  EXPECT_EQ(failure_of<std::runtime_error>(run), "no batch for rank 1");
}

TEST_F(ThreadedRunFailure, AHookThatThrowsAfterAnIteration) {
  Workload hooked = workload();
  hooked.after_iteration = [](std::uint32_t rank, const Iteration&) {
    if (rank == 2) throw std::runtime_error("no step for rank 2");
  };
  ThreadedRun run(pipeline_, policy(), hooked, {});
  EXPECT_EQ(failure_of<std::runtime_error>(run), "no step for rank 2");
}

TEST_F(ThreadedRunFailure, TheIterationsBeforeItAreNotTouched) {
  Workload hooked = workload();
  hooked.before_iteration = [](std::uint32_t, const Iteration& iteration) {
    if (iteration.index == 2) throw std::runtime_error("enough");
  };
  ThreadedRun run(pipeline_, policy(), hooked, {});
  for (std::uint64_t i = 0; i < 2; ++i) EXPECT_EQ(run.run({i}).ranks[0].tasks, 3 * kMicrobatches);
  EXPECT_THROW(run.run({2}), std::runtime_error);
  EXPECT_THROW(run.run({3}), Aborted);
}

TEST_F(ThreadedRunFailure, AStageThatNeverReturnsIsAStallThatEveryRankReports) {
  Faulty& blocked = break_chunk(1, Faulty::Fault::Blocks, Pass::Forward);
  RunSettings options;
  options.stall_timeout = 300ms;
  ThreadedRun run(pipeline_, policy(), workload(), options);
  const std::string text = failure_of<StallError>(run);
  EXPECT_THAT(text,
              AllOf(HasSubstr("no progress"), HasSubstr("rank 0"), HasSubstr("rank 1"), HasSubstr("rank 2")));
  EXPECT_THAT(text, HasSubstr("chunk 2, microbatch 3: waits for activations from stage 1"));
  blocked.released = true;
}

}  // namespace
}  // namespace sluice::host
