#include "sluice/cuda/eager_code.hpp"

#include <dlpack/dlpack.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "sluice/cuda/completion_board.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/cuda/handles.hpp"
#include "sluice/error.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::cuda {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::size_t kBytes = 16;

EdgeLayout bytes_layout() {
  TensorShape shape;
  shape.dtype_code = kDLUInt;
  shape.dtype_bits = 8;
  shape.rank = 1;
  shape.extent[0] = kBytes;
  return {shape};
}

/// Copies its input to its output, and keeps what it was called with.
class Copying final : public Stage {
 public:
  [[nodiscard]] ChunkMemory memory() const override { return {64, 128}; }

  void prepare_task(const host::TaskContext& context, Pass pass, const TaskBuffers& buffers,
                    cudaStream_t stream) override {
    calls.push_back(std::string("prepare ") + letter(pass));
    contexts.push_back(context);
    check(cudaMemsetAsync(buffers.slot.saved, static_cast<int>(context.microbatch), 1, stream), "preparing");
  }
  void forward(const TaskBuffers& buffers, cudaStream_t stream) override {
    calls.emplace_back("F");
    seen = buffers.temporary;
    seen_bytes = buffers.temporary_bytes;
    check(cudaMemcpyAsync(buffers.slot.outputs[0][0].data, buffers.slot.inputs[0][0].data, kBytes,
                          cudaMemcpyDeviceToDevice, stream),
          "copying");
  }
  void backward(const TaskBuffers& /*buffers*/, bool whole, cudaStream_t /*stream*/) override {
    calls.emplace_back(whole ? "whole B" : "B");
  }
  void weight_grad(const TaskBuffers& /*buffers*/, cudaStream_t /*stream*/) override {
    calls.emplace_back("W");
  }

  std::vector<std::string> calls;
  std::vector<host::TaskContext> contexts;
  std::byte* seen = nullptr;
  std::size_t seen_bytes = 0;
};

class EagerCodeTest : public ::testing::Test {
 protected:
  void enqueue(const Launch& launch) {
    code_.enqueue(launch, 0, board_, stream_.get());
    board_.launched(0);
  }
  [[nodiscard]] bool ends() const {
    const host::SteadyClock clock;
    const Time limit = clock.now() + 1min;
    while (!board_.ended(0) && clock.now() < limit) std::this_thread::yield();
    return board_.ended(0);
  }

  Pipeline pipeline_ = Pipeline::chain(3, 8, true);
  std::vector<EdgeLayout> layouts_{bytes_layout(), bytes_layout()};
  std::vector<ChunkMemory> chunks_{Copying().memory()};
  SlotMemory memory_{{pipeline_, 1, layouts_, chunks_}, 3};
  Stream stream_ = make_stream();
  CompletionBoard board_{1};
  Copying stage_;
  EagerCode code_{pipeline_, 1, {&stage_}, memory_, 7};
};

TEST_F(EagerCodeTest, RunsTheStageOnTheSlotOfTheLaunch) {
  const SlotBuffers& slot = memory_.at(0, 2);
  check(cudaMemsetAsync(slot.inputs[0][0].data, 42, kBytes, stream_.get()), "filling");
  enqueue({{5, 1, Pass::Forward}, 9, 2});
  ASSERT_TRUE(ends());
  std::vector<unsigned char> output(kBytes);
  unsigned char prepared = 0;
  check(cudaMemcpy(output.data(), slot.outputs[0][0].data, kBytes, cudaMemcpyDeviceToHost), "copying back");
  check(cudaMemcpy(&prepared, slot.saved, 1, cudaMemcpyDeviceToHost), "copying back");
  EXPECT_EQ(output, std::vector<unsigned char>(kBytes, 42));
  EXPECT_EQ(prepared, 5);
  EXPECT_EQ(stage_.seen, memory_.temporary(Lane::Compute));
  EXPECT_GE(stage_.seen_bytes, 128U);
}

TEST_F(EagerCodeTest, PreparesEachTaskAndTellsWhatItIs) {
  Launch forward{{5, 1, Pass::Forward}, 9, 2};
  forward.forward_only = true;
  enqueue(forward);
  ASSERT_TRUE(ends());
  ASSERT_EQ(stage_.contexts.size(), 1U);
  EXPECT_EQ(stage_.contexts[0].rank, 7U);
  EXPECT_EQ(stage_.contexts[0].iteration, 9U);
  EXPECT_EQ(stage_.contexts[0].microbatch, 5U);
  EXPECT_EQ(stage_.contexts[0].slot, 2U);
  EXPECT_TRUE(stage_.contexts[0].forward_only);
}

TEST_F(EagerCodeTest, CallsThePassThatWasLaunched) {
  for (const bool whole : {false, true}) {
    enqueue({{0, 1, Pass::Backward}, 0, 0, Lane::Compute, whole});
    ASSERT_TRUE(ends());
  }
  enqueue({{0, 1, Pass::WeightGrad}, 0, 0});
  ASSERT_TRUE(ends());
  EXPECT_THAT(stage_.calls, ElementsAre("prepare B", "B", "prepare B", "whole B", "prepare W", "W"));
}

TEST_F(EagerCodeTest, RefusesALaneWithoutTemporaryMemory) {
  try {
    enqueue({{0, 1, Pass::WeightGrad}, 0, 0, Lane::WeightGrad});
    FAIL() << "enqueued";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("temporary memory"));
  }
  EXPECT_TRUE(stage_.calls.empty());
}

TEST_F(EagerCodeTest, RefusesASlotWithoutMemory) {
  try {
    enqueue({{0, 1, Pass::Forward}, 0, 3});
    FAIL() << "enqueued";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("slot 3 is not one of the 3"));
  }
}

TEST_F(EagerCodeTest, RefusesTheWrongNumberOfStages) {
  try {
    const EagerCode code(pipeline_, 1, {}, memory_, 0);
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "stages");
    EXPECT_THAT(error.what(), HasSubstr("0 given for the 1 chunks of stage 1"));
  }
}

}  // namespace
}  // namespace sluice::cuda
