#include "autograd_stage.hpp"

#include <dlpack/dlpack.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "host_slot.hpp"
#include "script_code.hpp"
#include "script_file.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/error.hpp"

namespace sluice::capture {
namespace {

using cuda::Replay;
using test::HostDevice;
using test::HostDeviceLog;
using test::HostSlot;

cudaStream_t stream_of(std::uintptr_t number) { return reinterpret_cast<cudaStream_t>(number); }

/// A stage on the host, with some slots.
class HostStage {
 public:
  explicit HostStage(torch::jit::Module module, std::uint32_t slots = 1, const char* input = "float32[4,8]") {
    const test::TemporaryFolder folder;
    module.save(folder.file("stage.pt"));
    auto code =
        std::make_unique<ScriptCode>(folder.file("stage.pt"), std::vector{Input::parse(input)}, at::kCPU);
    const std::vector<TensorShape> inputs = code->inputs();
    const std::vector<TensorShape> outputs = code->outputs();
    stage_ = std::make_unique<AutogradStage>(std::make_unique<HostDevice>(log_), std::move(code));
    for (std::uint32_t i = 0; i < slots; ++i)
      slots_.push_back(std::make_unique<HostSlot>(inputs, outputs, stage_->memory().saved_bytes));
  }

  void prepare(Pass pass, Slot slot, Microbatch microbatch, std::uint64_t iteration = 0) {
    stage_->prepare_task({0, iteration, microbatch, slot, false}, pass, task(slot), stream_);
  }
  void forward(Slot slot, Microbatch microbatch, std::uint64_t iteration = 0) {
    prepare(Pass::Forward, slot, microbatch, iteration);
    at::manual_seed(microbatch + 1);
    this->slot(slot).input().copy_(at::randn({4, 8}));
    stage_->forward(task(slot), stream_);
  }
  void backward(Slot slot, Microbatch microbatch, bool whole) {
    prepare(Pass::Backward, slot, microbatch);
    at::manual_seed(microbatch + 100);
    if (!this->slot(slot).buffers().output_grads.empty())
      this->slot(slot).output_grad().copy_(at::randn({4, 8}));
    stage_->backward(task(slot), whole, stream_);
  }
  void weight_grad(Slot slot, Microbatch microbatch) {
    prepare(Pass::WeightGrad, slot, microbatch);
    stage_->weight_grad(task(slot), stream_);
  }
  [[nodiscard]] std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> all;
    for (const TrainedTensor& tensor : stage_->trained()) all.push_back(tensor.grad.clone());
    return all;
  }
  [[nodiscard]] Replay replay(Pass pass, bool whole) { return stage_->replay(pass, whole, task(0)); }

  [[nodiscard]] cuda::TaskBuffers task(Slot slot) { return slots_[slot]->task(); }
  [[nodiscard]] HostSlot& slot(Slot slot) { return *slots_[slot]; }
  [[nodiscard]] AutogradStage& stage() { return *stage_; }
  [[nodiscard]] HostDeviceLog& log() { return log_; }
  void use(cudaStream_t stream) { stream_ = stream; }
  void capture(bool capturing) {
    log_.capturing.clear();
    if (capturing) log_.capturing.insert(stream_);
  }

 private:
  HostDeviceLog log_;
  cudaStream_t stream_ = stream_of(1);
  std::unique_ptr<AutogradStage> stage_;
  std::vector<std::unique_ptr<HostSlot>> slots_;
};

bool all_equal(const std::vector<at::Tensor>& left, const std::vector<at::Tensor>& right) {
  if (left.size() != right.size()) return false;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (!at::equal(left[i], right[i])) return false;
  }
  return true;
}

TEST(AutogradStage, ComputesWhatAutogradDoes) {
  HostStage stage(test::module_of("x", "  return torch.gelu(torch.addmm(self.bias, x, self.weight))\n"));
  stage.forward(0, 3);
  const at::Tensor x = stage.slot(0).input().clone().set_requires_grad(true);
  const at::Tensor weight = stage.stage().trained()[0].value.detach().clone().set_requires_grad(true);
  const at::Tensor bias = stage.stage().trained()[1].value.detach().clone().set_requires_grad(true);
  const at::Tensor y = at::gelu(at::addmm(bias, x, weight));
  EXPECT_TRUE(at::equal(stage.slot(0).output(), y));
  stage.backward(0, 3, true);
  const auto expected = torch::autograd::grad({y}, {x, weight, bias}, {stage.slot(0).output_grad()});
  EXPECT_TRUE(at::equal(stage.slot(0).input_grad(), expected[0]));
  EXPECT_TRUE(all_equal(stage.gradients(), {expected[1], expected[2]}));
  EXPECT_EQ(stage.log().at_work, 0);
}

/// Three microbatches in three slots, in two orders, with dropout.
TEST(AutogradStage, MicrobatchesComputeTheSameInAnySlotAndOrder) {
  for (const bool split : {false, true}) {
    HostStage inwards(test::dropout_module(), 3);
    HostStage outwards(test::dropout_module(), 3);
    for (const Microbatch m : {0U, 1U, 2U}) inwards.forward(m, m);
    for (const Microbatch m : {2U, 0U, 1U}) outwards.forward((m + 1) % 3, m);
    for (const Microbatch m : {1U, 2U, 0U}) {
      inwards.backward(m, m, !split);
      outwards.backward((m + 1) % 3, m, !split);
    }
    if (split) {
      for (const Microbatch m : {1U, 2U, 0U}) {
        inwards.weight_grad(m, m);
        outwards.weight_grad((m + 1) % 3, m);
      }
    }
    for (const Microbatch m : {0U, 1U, 2U}) {
      EXPECT_TRUE(at::equal(inwards.slot(m).output(), outwards.slot((m + 1) % 3).output()));
      EXPECT_TRUE(at::equal(inwards.slot(m).input_grad(), outwards.slot((m + 1) % 3).input_grad()));
    }
    EXPECT_TRUE(all_equal(inwards.gradients(), outwards.gradients()));
  }
}

TEST(AutogradStage, DropoutFollowsMicrobatchAndIteration) {
  HostStage stage(test::module_of("x", "  return torch.dropout(torch.ones_like(x) * self.bias, 0.5, True)\n"),
                  2);
  stage.forward(0, 3, 5);
  const at::Tensor first = stage.slot(0).output().clone();
  stage.forward(1, 3, 5);
  EXPECT_TRUE(at::equal(stage.slot(1).output(), first));
  stage.forward(1, 4, 5);
  EXPECT_FALSE(at::equal(stage.slot(1).output(), first));
  stage.forward(1, 3, 6);
  EXPECT_FALSE(at::equal(stage.slot(1).output(), first));
}

TEST(AutogradStage, AddsGradientsUpAndZeroesThemInPlace) {
  HostStage stage(test::module_of("x", "  return torch.addmm(self.bias, x, self.weight)\n"));
  const void* const address = stage.stage().trained()[0].grad.data_ptr();
  stage.forward(0, 0);
  stage.backward(0, 0, true);
  const std::vector<at::Tensor> once = stage.gradients();
  stage.forward(0, 0);
  stage.backward(0, 0, true);
  EXPECT_TRUE(all_equal(stage.gradients(), {once[0] * 2, once[1] * 2}));
  stage.stage().zero_gradients(stream_of(1));
  EXPECT_TRUE(all_equal(stage.gradients(), {at::zeros({8, 8}), at::zeros({8})}));
  EXPECT_EQ(stage.stage().trained()[0].grad.data_ptr(), address);
  ASSERT_EQ(stage.stage().state().size(), 3U);
  EXPECT_EQ(static_cast<const void*>(stage.stage().state()[0].data), address);
}

TEST(AutogradStage, ALossHasAGradientOfOne) {
  HostStage stage(test::module_of("x", "  return torch.addmm(self.bias, x, self.weight).mean()\n"));
  stage.forward(0, 2);
  const at::Tensor expected =
      at::addmm(stage.stage().trained()[1].value, stage.slot(0).input(), stage.stage().trained()[0].value)
          .mean();
  EXPECT_EQ(stage.stage().loss(stage.slot(0).buffers(), nullptr), expected.item<float>());
  stage.backward(0, 2, true);
  EXPECT_TRUE(at::allclose(stage.gradients()[1], at::full({8}, 1.0 / 8)));
  HostStage without(test::dropout_module());
  EXPECT_THROW(static_cast<void>(without.stage().loss(without.slot(0).buffers(), nullptr)), Error);
}

TEST(AutogradStage, WholeNumbersHaveAGradientOfZeros) {
  HostStage stage(test::module_of("x", "  return self.weight[x]\n"), 1, "int64[4]:8");
  stage.prepare(Pass::Forward, 0, 0);
  stage.slot(0).input().copy_(at::tensor({1, 7, 0, 1}, at::kLong));
  stage.stage().forward(stage.task(0), nullptr);
  stage.slot(0).output_grad().fill_(1);
  stage.prepare(Pass::Backward, 0, 0);
  stage.stage().backward(stage.task(0), true, nullptr);
  EXPECT_TRUE(at::equal(stage.slot(0).input_grad(), at::zeros({4}, at::kLong)));
  EXPECT_EQ(stage.gradients()[0][1][0].item<float>(), 2.0F);
}

TEST(AutogradStage, WorkCallByCallStaysOnTheStreamOfItsForward) {
  HostStage stage(test::dropout_module());
  stage.forward(0, 0);
  stage.backward(0, 0, false);
  EXPECT_TRUE(stage.log().follows.empty());
  stage.use(stream_of(2));
  stage.weight_grad(0, 0);
  EXPECT_EQ(stage.log().begun.back(), stream_of(1));
  EXPECT_THAT(stage.log().follows, ::testing::ElementsAre(std::pair(stream_of(1), stream_of(2)),
                                                          std::pair(stream_of(2), stream_of(1))));
}

TEST(AutogradStage, NamesWhatWasNotDone) {
  HostStage stage(test::dropout_module());
  EXPECT_THROW(stage.backward(0, 0, true), Error);
  stage.forward(0, 0);
  EXPECT_THROW(stage.weight_grad(0, 0), Error);
  stage.backward(0, 0, true);
  EXPECT_THROW(stage.weight_grad(0, 0), Error);
}

TEST(AutogradStage, WhatTorchThrowsIsAnErrorWithItsCause) {
  HostStage stage(
      test::module_of("x", "  assert float(x[0, 0]) < 5.0, 'too large'\n  return x * self.bias\n"));
  stage.prepare(Pass::Forward, 0, 0);
  stage.slot(0).input().fill_(9);
  try {
    stage.stage().forward(stage.task(0), nullptr);
    FAIL() << "computed";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("too large"));
  }
  EXPECT_EQ(stage.log().at_work, 0);
}

/// Runs out of memory.
class Insatiable final : public ChunkCode {
 public:
  explicit Insatiable(bool in_script) : in_script_(in_script) {}
  [[nodiscard]] bool ends_in_loss() const override { return false; }
  [[nodiscard]] std::shared_ptr<ChunkRun> forward(const std::vector<at::Tensor>&, std::byte*,
                                                  std::uint64_t) override {
    if (in_script_)
      throw std::runtime_error("The following operation failed\nRuntimeError: CUDA out of memory. Tried");
    TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate 20 MiB");
  }
  [[nodiscard]] std::vector<TrainedTensor> trained() const override { return {}; }

 private:
  bool in_script_;
};

TEST(AutogradStage, OutOfMemoryHasItsCode) {
  for (const bool in_script : {false, true}) {
    HostDeviceLog log;
    AutogradStage stage(std::make_unique<HostDevice>(log), std::make_unique<Insatiable>(in_script));
    HostSlot slot({}, {}, stage.memory().saved_bytes);
    try {
      stage.forward(slot.task(), nullptr);
      FAIL() << "computed";
    } catch (const cuda::CudaError& error) {
      EXPECT_EQ(error.code(), cudaErrorMemoryAllocation);
      EXPECT_THAT(error.what(), ::testing::HasSubstr("CUDA out of memory. Tried"));
    }
  }
}

TEST(AutogradStage, RefusesEdgesOfAnotherNumberOfTensors) {
  HostStage stage(test::dropout_module());
  const TensorShape shape{kDLFloat, 32, 2, {4, 8}};
  HostSlot two({shape}, {shape, shape}, stage.stage().memory().saved_bytes);
  EXPECT_THROW(stage.stage().forward(two.task(), nullptr), Error);
}

TEST(AutogradStage, APassCanBeReplayedWhenTheOneBeforeItWas) {
  HostStage stage(test::dropout_module());
  EXPECT_EQ(stage.replay(Pass::Forward, false), Replay::Again);
  stage.capture(true);
  stage.forward(0, 0);
  EXPECT_EQ(stage.replay(Pass::Forward, false), Replay::Held);
  EXPECT_EQ(stage.replay(Pass::Backward, true), Replay::Again);
  stage.backward(0, 0, true);
  EXPECT_EQ(stage.replay(Pass::Backward, true), Replay::Held);
  EXPECT_EQ(stage.replay(Pass::Backward, false), Replay::Again);
  stage.backward(0, 0, false);
  EXPECT_EQ(stage.replay(Pass::WeightGrad, false), Replay::Again);
  stage.weight_grad(0, 0);
  EXPECT_EQ(stage.replay(Pass::WeightGrad, false), Replay::Held);

  // Call by call, nothing is where the graphs read.
  stage.capture(false);
  stage.forward(0, 0);
  EXPECT_EQ(stage.replay(Pass::Forward, false), Replay::Held);
  EXPECT_EQ(stage.replay(Pass::Backward, false), Replay::ByCalls);
  // A forward by its graph calls nothing.
  stage.prepare(Pass::Forward, 0, 1);
  EXPECT_EQ(stage.replay(Pass::Backward, false), Replay::Held);
  stage.backward(0, 1, false);
  EXPECT_EQ(stage.replay(Pass::WeightGrad, false), Replay::ByCalls);
  stage.prepare(Pass::Backward, 0, 1);
  EXPECT_EQ(stage.replay(Pass::WeightGrad, false), Replay::Held);
}

TEST(AutogradStage, ANewCaptureOfAForwardMakesTheOtherGraphsStale) {
  HostStage stage(test::dropout_module());
  stage.capture(true);
  stage.forward(0, 0);
  stage.backward(0, 0, false);
  stage.weight_grad(0, 0);
  stage.forward(0, 0);
  EXPECT_EQ(stage.replay(Pass::Backward, false), Replay::Again);
  EXPECT_EQ(stage.replay(Pass::WeightGrad, false), Replay::Again);
}

TEST(AutogradStage, EachSetOfShapesIsCapturedForItself) {
  HostStage stage(test::dropout_module());
  stage.capture(true);
  stage.forward(0, 0);
  stage.backward(0, 0, true);
  TensorShape& shape = stage.slot(0).buffers().inputs[0][0].shape;
  shape.extent[0] = 2;
  EXPECT_EQ(stage.replay(Pass::Forward, false), Replay::Again);
  stage.prepare(Pass::Forward, 0, 0);
  stage.stage().forward(stage.task(0), stream_of(1));
  EXPECT_EQ(stage.replay(Pass::Backward, true), Replay::Again);
  shape.extent[0] = 4;
  EXPECT_EQ(stage.replay(Pass::Backward, true), Replay::Held);
}

TEST(AutogradStage, CapturesOnAnotherStreamBelongToAnotherCache) {
  HostStage stage(test::dropout_module(), 2);
  stage.capture(true);
  stage.forward(0, 0);
  stage.use(stream_of(2));
  stage.capture(true);
  stage.forward(1, 0);
  EXPECT_EQ(stage.replay(Pass::Forward, false), Replay::Again);
}

TEST(AutogradStage, RefusesToCaptureAfterCallsThatNoReplayRepeats) {
  HostStage stage(test::dropout_module());
  stage.forward(0, 0);
  stage.capture(true);
  EXPECT_THROW(stage.backward(0, 0, true), Error);
  stage.forward(0, 0);
  stage.capture(false);
  stage.backward(0, 0, false);
  stage.capture(true);
  EXPECT_THROW(stage.weight_grad(0, 0), Error);
}

TEST(AutogradStage, WarmUpsBetweenCapturesChangeNothingThatWasCaptured) {
  HostStage stage(test::module_of("x", "  return torch.gelu(torch.addmm(self.bias, x, self.weight))\n"));
  stage.forward(0, 0);
  stage.backward(0, 0, true);
  const at::Tensor expected = stage.slot(0).input_grad().clone();
  stage.capture(true);
  stage.forward(0, 0);
  stage.capture(false);
  stage.prepare(Pass::Forward, 0, 0);
  for (int run = 0; run < 2; ++run) {
    stage.slot(0).input_grad().zero_();
    stage.backward(0, 0, true);
    EXPECT_TRUE(at::equal(stage.slot(0).input_grad(), expected));
  }
  stage.capture(true);
  stage.slot(0).input_grad().zero_();
  stage.backward(0, 0, false);
  EXPECT_TRUE(at::equal(stage.slot(0).input_grad(), expected));
  stage.capture(false);
  stage.prepare(Pass::Backward, 0, 0);
  stage.stage().zero_gradients(stream_of(1));
  stage.weight_grad(0, 0);
  const std::vector<at::Tensor> once = stage.gradients();
  stage.weight_grad(0, 0);
  EXPECT_TRUE(all_equal(stage.gradients(), {once[0] * 2, once[1] * 2}));
}

}  // namespace
}  // namespace sluice::capture
