#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "captured_chunk.hpp"
#include "sluice/torch/cuda/chunk_target.hpp"

namespace sluice::gpt {
namespace {

using capture::test::CapturedChunk;
constexpr std::uint32_t kSlots = 2;

GptConfig small_config() {
  GptConfig config;
  config.layers = 3;
  config.width = 32;
  config.heads = 2;
  config.context = 16;
  config.micro_batch_size = 2;
  config.dropout = 0.2;
  return config;
}

std::shared_ptr<const TextData> some_text() {
  std::string text;
  for (int i = 0; i < 4000; ++i) text += static_cast<char>('a' + i * i % 23);
  return std::make_shared<TextData>(std::move(text), small_config().context);
}

class ModelReplay : public capture::test::OnDevice {};

/// The embedding adds gradients in an order that changes from run to run, unless its rows are all different,
/// so its own is compared with a tolerance.
void expect_equal(const CapturedChunk& left, const CapturedChunk& right) {
  const auto trained = left.stage().trained();
  const std::vector<at::Tensor> found = left.gradients();
  const std::vector<at::Tensor> expected = right.gradients();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const bool exact = trained[i].name != "embedding.weight";
    EXPECT_TRUE(exact ? at::equal(found[i], expected[i]) : at::allclose(found[i], expected[i], 1e-4, 1e-6))
        << trained[i].name;
    EXPECT_GT(expected[i].abs().max().item<float>(), 0.0F) << trained[i].name;
  }
}

TEST_F(ModelReplay, EachChunkIsAsCallByCall) {
  for (Chunk chunk = 0; chunk < 3; ++chunk) {
    SCOPED_TRACE(chunk);
    const auto load = [&] {
      return load_chunk(
          small_config(), some_text(),
          {.chunk = chunk, .chunks = 3, .slots = kSlots, .microbatches = CapturedChunk::kMicrobatches});
    };
    graphs::GraphCache::Options options;
    options.tolerance = 1e-5;
    CapturedChunk by_graphs(load(), kSlots, true, options);
    CapturedChunk by_calls(load(), kSlots, true);
    by_graphs.capture();
    const auto run = [&](CapturedChunk& on, cuda::TaskCode& code) {
      on.zero_gradients();
      std::vector<double> losses;
      for (const Microbatch m : {0U, 1U, 2U, 3U}) {
        const Slot slot = (m + 1) % kSlots;
        on.arrive(m, slot);
        on.run(code, on.launch_of(Pass::Forward, m, slot, false, 4));
        if (chunk == 2) losses.push_back(on.stage().loss(on.buffers(slot), on.stream()));
        on.run(code, on.launch_of(Pass::Backward, m, slot, false, 4));
        on.run(code, on.launch_of(Pass::WeightGrad, m, slot, false, 4));
      }
      return losses;
    };
    EXPECT_EQ(run(by_graphs, by_graphs.cache()), run(by_calls, by_calls.eager()));
    expect_equal(by_graphs, by_calls);
    EXPECT_EQ(by_graphs.cache().statistics().eager, 0U);
  }
}

TEST_F(ModelReplay, EvaluationDropsNothing) {
  GptConfig without = small_config();
  without.dropout = 0;
  const ChunkTargetOptions last{.chunk = 2, .chunks = 3, .slots = kSlots};
  CapturedChunk chunk(load_chunk(small_config(), some_text(), last), kSlots, true, {.tolerance = 1e-5});
  CapturedChunk plain(load_chunk(without, some_text(), last), kSlots, true);
  chunk.capture();
  const auto loss_of = [](CapturedChunk& on, cuda::TaskCode& code, bool forward_only) {
    on.arrive(1, 0);
    Launch launch = on.launch_of(Pass::Forward, 1, 0, false, 2);
    launch.forward_only = forward_only;
    on.run(code, launch);
    return on.stage().loss(on.buffers(0), on.stream());
  };
  EXPECT_EQ(loss_of(chunk, chunk.cache(), true), loss_of(plain, plain.eager(), true));
  EXPECT_EQ(chunk.cache().statistics().eager, 1U);
  EXPECT_NE(loss_of(chunk, chunk.cache(), false), loss_of(plain, plain.eager(), false));
}

TEST_F(ModelReplay, ImagesOfOneGridShareAGraph) {
  GptConfig config = small_config();
  config.context = 32;
  config.encoder.emplace();
  config.encoder->layers = 2;
  config.encoder->width = 16;
  config.encoder->heads = 2;
  config.encoder->largest_grid = 4;
  const auto load = [&] { return load_chunk(config, nullptr, {.chunk = 0, .chunks = 3, .slots = kSlots}); };
  graphs::GraphCache::Options options;
  options.capture_unseen = true;
  options.tolerance = 1e-5;
  CapturedChunk by_graphs(load(), kSlots, true, options);
  CapturedChunk by_calls(load(), kSlots, true);
  const auto run = [](CapturedChunk& on, cuda::TaskCode& code) {
    std::vector<std::vector<std::byte>> outputs;
    for (std::uint64_t iteration = 0; iteration < 12; ++iteration) {
      on.arrive(0, 0);
      on.run(code, on.launch_of(Pass::Forward, 0, 0, false, iteration));
      std::vector<std::byte> output = CapturedChunk::read(on.buffers(0).outputs[0][0]);
      const TensorShape& shape = on.buffers(0).outputs[0][0].shape;
      output.resize(static_cast<std::size_t>(shape.extent[0] * shape.extent[1] * shape.extent[2]) *
                    sizeof(float));
      outputs.push_back(std::move(output));
    }
    return outputs;
  };
  EXPECT_EQ(run(by_graphs, by_graphs.cache()), run(by_calls, by_calls.eager()));
  EXPECT_EQ(by_graphs.cache().statistics().eager, 0U);
}

}  // namespace
}  // namespace sluice::gpt
