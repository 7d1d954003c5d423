#include "model_chunk.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autograd_stage.hpp"
#include "host_slot.hpp"
#include "sluice/error.hpp"

namespace sluice::gpt {
namespace {

using capture::AutogradStage;
using capture::TrainedTensor;
using capture::test::HostDevice;
using capture::test::HostDeviceLog;
using capture::test::HostSlot;
using cuda::Replay;

GptConfig small_config(bool images) {
  GptConfig config;
  config.layers = 2;
  config.width = 16;
  config.heads = 2;
  config.context = 32;
  config.micro_batch_size = 2;
  if (images) {
    config.encoder.emplace();
    config.encoder->layers = 2;
    config.encoder->width = 8;
    config.encoder->heads = 2;
    config.encoder->largest_grid = 5;
  }
  return config;
}

std::shared_ptr<const TextData> some_text(const GptConfig& config) {
  std::string text;
  for (int i = 0; i < 4000; ++i) text += static_cast<char>('a' + i * i % 23);
  return std::make_shared<TextData>(std::move(text), config.context);
}

/// A chain of chunks on the host, a slot each.
class HostChain {
 public:
  HostChain(const GptConfig& config, std::uint32_t chunks, std::uint32_t microbatches = 1) {
    for (Chunk chunk = 0; chunk < chunks; ++chunk) {
      ModelChunk made =
          make_model_chunk(config, some_text(config),
                           {.chunk = chunk, .chunks = chunks, .microbatches = microbatches}, at::kCPU);
      stages_.push_back(
          std::make_unique<AutogradStage>(std::make_unique<HostDevice>(log_), std::move(made.code)));
      slots_.push_back(
          std::make_unique<HostSlot>(made.inputs, made.outputs, stages_.back()->memory().saved_bytes));
    }
  }

  void prepare(std::size_t chunk, Pass pass, Microbatch microbatch, std::uint64_t iteration = 0,
               bool forward_only = false) {
    stages_[chunk]->prepare_task({0, iteration, microbatch, 0, forward_only}, pass, slots_[chunk]->task(),
                                 nullptr);
  }
  double forward(Microbatch microbatch, std::uint64_t iteration = 0, bool forward_only = false) {
    for (std::size_t chunk = 0; chunk < stages_.size(); ++chunk) {
      prepare(chunk, Pass::Forward, microbatch, iteration, forward_only);
      if (chunk > 0)
        deliver(slots_[chunk - 1]->buffers().outputs[0][0], slots_[chunk]->buffers().inputs[0][0]);
      stages_[chunk]->forward(slots_[chunk]->task(), nullptr);
    }
    return stages_.back()->loss(slots_.back()->buffers(), nullptr);
  }
  void backward(Microbatch microbatch, bool whole) {
    for (std::size_t chunk = stages_.size(); chunk-- > 0;) {
      prepare(chunk, Pass::Backward, microbatch);
      if (chunk + 1 < stages_.size())
        deliver(slots_[chunk + 1]->buffers().input_grads[0][0], slots_[chunk]->buffers().output_grads[0][0]);
      stages_[chunk]->backward(slots_[chunk]->task(), whole, nullptr);
      if (!whole) stages_[chunk]->weight_grad(slots_[chunk]->task(), nullptr);
    }
  }
  [[nodiscard]] std::map<std::string, at::Tensor> gradients() const {
    std::map<std::string, at::Tensor> all;
    for (const auto& stage : stages_) {
      for (const TrainedTensor& tensor : stage->trained()) all.emplace(tensor.name, tensor.grad.clone());
    }
    return all;
  }
  [[nodiscard]] Replay replay(std::size_t chunk, Pass pass) {
    return stages_[chunk]->replay(pass, true, slots_[chunk]->task());
  }
  [[nodiscard]] HostDeviceLog& log() { return log_; }
  [[nodiscard]] cuda::SlotBuffers& slot(std::size_t chunk) { return slots_[chunk]->buffers(); }
  [[nodiscard]] AutogradStage& stage(std::size_t chunk) { return *stages_[chunk]; }

 private:
  static void deliver(const cuda::SlotTensor& from, cuda::SlotTensor& to) {
    capture::store(capture::view_of(from, at::kCPU), to, at::kCPU, "a message");
  }

  HostDeviceLog log_;
  std::vector<std::unique_ptr<AutogradStage>> stages_;
  std::vector<std::unique_ptr<HostSlot>> slots_;
};

void expect_equal(const std::map<std::string, at::Tensor>& left,
                  const std::map<std::string, at::Tensor>& right) {
  ASSERT_EQ(left.size(), right.size());
  for (const auto& [name, tensor] : left) EXPECT_TRUE(at::equal(tensor, right.at(name))) << name;
}

class ModelChunks : public ::testing::TestWithParam<bool> {};

TEST_P(ModelChunks, ComputeTheSameHoweverTheModelIsCut) {
  const GptConfig config = small_config(GetParam());
  HostChain whole(config, 1);
  HostChain parts(config, config.encoder ? 4 : 2);
  const double loss = whole.forward(1);
  EXPECT_EQ(parts.forward(1), loss);
  EXPECT_GT(loss, 1.0);
  EXPECT_LT(loss, 2 * std::log(config.vocabulary));
  whole.backward(1, true);
  parts.backward(1, false);
  expect_equal(whole.gradients(), parts.gradients());
  for (const auto& [name, tensor] : whole.gradients())
    EXPECT_GT(tensor.abs().max().item<float>(), 0.0F) << name;
}

TEST_P(ModelChunks, ASplitBackwardRunsAgainAsOftenAsWanted) {
  const GptConfig config = small_config(GetParam());
  HostChain chain(config, 2);
  chain.forward(0);
  chain.backward(0, false);
  const auto once = chain.gradients();
  for (std::size_t chunk : {0U, 1U}) chain.stage(chunk).zero_gradients(nullptr);
  // Neither an earlier backward's jobs nor their second run are left.
  chain.forward(0);
  for (std::size_t chunk : {1U, 0U}) chain.prepare(chunk, Pass::Backward, 0);
  chain.backward(0, true);
  expect_equal(chain.gradients(), once);
}

TEST_P(ModelChunks, ALossIsItsShareOfTheIterations) {
  const GptConfig config = small_config(GetParam());
  HostChain one(config, 1, 1);
  HostChain four(config, 1, 4);
  EXPECT_EQ(one.forward(0), four.forward(0));
  one.backward(0, true);
  four.backward(0, true);
  const auto all = one.gradients();
  for (const auto& [name, tensor] : four.gradients())
    EXPECT_TRUE(at::allclose(tensor * 4, all.at(name))) << name;
}

TEST_P(ModelChunks, DropoutFollowsTheMicrobatchAndSparesEvaluation) {
  GptConfig config = small_config(GetParam());
  HostChain without(config, 2);
  config.dropout = 0.4;
  HostChain chain(config, 2);
  const double loss = chain.forward(1, 3);
  EXPECT_NE(without.forward(1, 3), loss);
  EXPECT_NE(chain.forward(1, 4), loss);
  EXPECT_EQ(chain.forward(1, 3), loss);
  EXPECT_EQ(chain.forward(1, 3, true), without.forward(1, 3, true));
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutImages, ModelChunks, ::testing::Bool());

TEST(ModelChunk, AGraphThatDropsIsNotForEvaluation) {
  GptConfig config = small_config(false);
  config.dropout = 0.4;
  HostChain chain(config, 1);
  chain.log().capturing.insert(nullptr);
  chain.forward(0);
  EXPECT_EQ(chain.replay(0, Pass::Forward), Replay::Held);
  chain.prepare(0, Pass::Forward, 0, 0, true);
  EXPECT_EQ(chain.replay(0, Pass::Forward), Replay::Again);
}

/// Two images of as many patches in other rows and columns.
TEST(ModelChunk, AGraphIsForImagesOfOneGrid) {
  const GptConfig config = small_config(true);
  HostChain chain(config, 2);
  chain.log().capturing.insert(nullptr);
  std::map<std::int64_t, int> captures;
  for (Microbatch m = 0; m < 40; ++m) {
    chain.prepare(0, Pass::Forward, m);
    const std::int64_t patches = chain.slot(0).outputs[0][0].shape.extent[1];
    if (chain.replay(0, Pass::Forward) == Replay::Again) ++captures[patches];
    chain.forward(m);
    EXPECT_EQ(chain.replay(0, Pass::Forward), Replay::Held);
  }
  EXPECT_GT(captures.size(), 3U);
  // By shapes alone, one capture would do for 2 x 2; of six patches there are 2 x 3 and 3 x 2.
  EXPECT_EQ(captures[4], 1);
  EXPECT_GT(captures[6], 1);
}

TEST(ModelChunk, NamesABadOption) {
  const auto refused = [](const ChunkTargetOptions& options, GptConfig config) {
    try {
      static_cast<void>(make_model_chunk(config, some_text(config), options, at::kCPU));
      return std::string();
    } catch (const ConfigError& error) {
      return error.field();
    }
  };
  EXPECT_EQ(refused({.chunk = 2, .chunks = 2}, small_config(false)), "chunk");
  EXPECT_EQ(refused({.microbatches = 0}, small_config(false)), "microbatches");
  EXPECT_EQ(refused({.chunks = 9}, small_config(false)), "stages");
  GptConfig bad = small_config(false);
  bad.heads = 3;
  EXPECT_NE(refused({}, bad), "");
}

}  // namespace
}  // namespace sluice::gpt
