#include <c10/cuda/CUDACachingAllocator.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "../script_file.hpp"
#include "captured_chunk.hpp"
#include "sluice/error.hpp"
#include "sluice/graphs/capture_error.hpp"
#include "sluice/torch/cuda/script_stage.hpp"

namespace sluice::capture {
namespace {

using test::CapturedChunk;
constexpr std::uint32_t kSlots = 3;
constexpr Microbatch kMicrobatches = CapturedChunk::kMicrobatches;

/// Slots and orders that have nothing to do with the microbatches' own.
constexpr Slot slot_of(Microbatch microbatch) { return (2 * microbatch + 1) % kSlots; }

class ScriptReplay : public test::OnDevice {
 protected:
  [[nodiscard]] graphs::CaptureTarget load(torch::jit::Module module, bool split = false) const {
    module.save(folder_.file("stage.pt"));
    return load_script(folder_.file("stage.pt"), {Input::parse("float32[4,8]")},
                       {.slots = kSlots, .seed = 7, .chunk = 1, .split = split});
  }

  test::TemporaryFolder folder_;
};

/// Outputs and input gradients of all microbatches, and the weight gradients at the end.
struct Results {
  std::vector<std::vector<std::byte>> tensors;
  std::vector<at::Tensor> gradients;
};

Results run_all(CapturedChunk& chunk, cuda::TaskCode& code, bool split) {
  Results results;
  chunk.zero_gradients();
  for (Microbatch first = 0; first < kMicrobatches; first += 2) {
    // Two microbatches in flight; the later one goes forward first.
    for (const Microbatch m : {first + 1, first}) {
      chunk.arrive(m, slot_of(m));
      chunk.run(code, chunk.launch_of(Pass::Forward, m, slot_of(m), false));
    }
    for (const Microbatch m : {first, first + 1}) {
      const cuda::SlotBuffers& slot = chunk.buffers(slot_of(m));
      chunk.run(code, chunk.launch_of(Pass::Backward, m, slot_of(m), !split));
      for (const auto* edges : {&slot.outputs, &slot.input_grads}) {
        for (const auto& tensors : *edges) {
          for (const cuda::SlotTensor& tensor : tensors)
            results.tensors.push_back(CapturedChunk::read(tensor));
        }
      }
    }
    for (const Microbatch m : {first, first + 1}) {
      if (split) chunk.run(code, chunk.launch_of(Pass::WeightGrad, m, slot_of(m), false));
    }
  }
  results.gradients = chunk.gradients();
  return results;
}

void expect_equal(const Results& left, const Results& right) {
  EXPECT_EQ(left.tensors, right.tensors);
  ASSERT_EQ(left.gradients.size(), right.gradients.size());
  for (std::size_t i = 0; i < left.gradients.size(); ++i) {
    EXPECT_TRUE(at::equal(left.gradients[i], right.gradients[i])) << "gradient " << i;
    EXPECT_GT(left.gradients[i].abs().max().item<float>(), 0.0F) << "gradient " << i;
  }
}

TEST_F(ScriptReplay, IsAsRunsCallByCallBitForBit) {
  for (const bool split : {false, true}) {
    SCOPED_TRACE(split ? "split" : "whole");
    CapturedChunk by_graphs(load(test::dropout_module(), split), kSlots, split);
    CapturedChunk by_calls(load(test::dropout_module(), split), kSlots, split);
    by_graphs.capture();
    for (const graphs::CapturedTask& task : by_graphs.cache().captured()) {
      EXPECT_TRUE(task.verified) << to_string(task.key);
      EXPECT_EQ(task.verification.max_abs_error, 0) << to_string(task.key);
      EXPECT_EQ(task.nodes.allocations, 0U) << to_string(task.key);
    }
    expect_equal(run_all(by_graphs, by_graphs.cache(), split), run_all(by_calls, by_calls.eager(), split));
    EXPECT_EQ(by_graphs.cache().statistics().eager, 0U);
    // Once more: what the first run left in the slots does not matter.
    expect_equal(run_all(by_graphs, by_graphs.cache(), split), run_all(by_calls, by_calls.eager(), split));
  }
}

TEST_F(ScriptReplay, ComputesWhatTheHostDoes) {
  const auto plain = [] {
    return test::module_of("x", "  return torch.gelu(torch.addmm(self.bias, x, self.weight))\n");
  };
  CapturedChunk chunk(load(plain()), kSlots, false);
  chunk.capture();
  chunk.zero_gradients();
  chunk.arrive(2, 1);
  chunk.run(chunk.cache(), chunk.launch_of(Pass::Forward, 2, 1, false));
  chunk.run(chunk.cache(), chunk.launch_of(Pass::Backward, 2, 1, true));
  const auto on_host = [&](const cuda::SlotTensor& tensor) {
    at::Tensor values = at::empty({4, 8});
    const std::vector<std::byte> bytes = CapturedChunk::read(tensor);
    std::memcpy(values.data_ptr(), bytes.data(), bytes.size());
    return values;
  };
  torch::jit::Module module = plain();
  const at::Tensor x = on_host(chunk.buffers(1).inputs[0][0]).set_requires_grad(true);
  const at::Tensor y = module.forward({x}).toTensor();
  y.backward(on_host(chunk.buffers(1).output_grads[0][0]));
  EXPECT_TRUE(at::allclose(on_host(chunk.buffers(1).outputs[0][0]), y, 1e-3, 1e-4));
  EXPECT_TRUE(at::allclose(on_host(chunk.buffers(1).input_grads[0][0]), x.grad(), 1e-3, 1e-4));
  EXPECT_TRUE(at::allclose(chunk.gradients()[0], module.attr("weight").toTensor().grad(), 1e-3, 1e-4));
}

TEST_F(ScriptReplay, DropoutFollowsMicrobatchAndIterationNotSlotOrOrder) {
  CapturedChunk chunk(load(test::dropout_module()), kSlots, false);
  chunk.capture();
  const auto output = [&](Microbatch microbatch, Slot slot, std::uint64_t iteration) {
    chunk.arrive(0, slot);
    chunk.run(chunk.cache(), chunk.launch_of(Pass::Forward, microbatch, slot, false, iteration));
    return CapturedChunk::read(chunk.buffers(slot).outputs[0][0]);
  };
  const std::vector<std::byte> first = output(3, 0, 5);
  EXPECT_NE(output(2, 0, 5), first);
  EXPECT_NE(output(3, 0, 6), first);
  EXPECT_EQ(output(3, 2, 5), first);
  EXPECT_EQ(output(3, 0, 5), first);
}

TEST_F(ScriptReplay, CapturesNothingIntoTheWeightsAndBuffers) {
  CapturedChunk chunk(load(test::dropout_module()), kSlots, false);
  const std::vector<at::Tensor> before = chunk.gradients();
  chunk.capture();
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(at::equal(chunk.gradients()[i], before[i]));
}

bool holds_pools() {
  const auto segments = c10::cuda::CUDACachingAllocator::snapshot().segments;
  return std::ranges::any_of(segments, [](const auto& segment) {
    return segment.owner_private_pool_id.first != 0 || segment.owner_private_pool_id.second != 0;
  });
}

TEST_F(ScriptReplay, PoolsGoWithTheStage) {
  {
    CapturedChunk chunk(load(test::dropout_module()), kSlots, false);
    EXPECT_EQ(chunk.stage().pool_bytes(), 0U);
    chunk.capture();
    EXPECT_GT(chunk.stage().pool_bytes(), 0U);
    EXPECT_TRUE(holds_pools());
  }
  EXPECT_FALSE(holds_pools());
}

TEST_F(ScriptReplay, OutOfMemoryNamesTheTaskAndLeavesTheDeviceUsable) {
  CapturedChunk chunk(load(test::module_of("x",
                                           "  y = torch.zeros([1 << 30], device=x.device)\n"
                                           "  return x * self.bias + y[0]\n")),
                      1, false);
  c10::cuda::CUDACachingAllocator::emptyCache();
  c10::cuda::CUDACachingAllocator::setMemoryFraction(0.01, 0);
  try {
    chunk.capture();
    ADD_FAILURE() << "captured";
  } catch (const graphs::CaptureError& error) {
    EXPECT_EQ(error.code(), cudaErrorMemoryAllocation);
    EXPECT_EQ(error.key(), (graphs::CaptureKey{1, Pass::Forward, false, 0}));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("out of memory"));
  }
  c10::cuda::CUDACachingAllocator::setMemoryFraction(1.0, 0);
  CapturedChunk other(load(test::dropout_module()), 1, false);
  other.capture();
  EXPECT_EQ(other.cache().captured().size(), 2U);
}

TEST_F(ScriptReplay, WhatWaitsForTheDeviceIsRefusedByName) {
  CapturedChunk chunk(load(test::module_of("x",
                                           "  if float(x.sum()) > 0.0:\n    return x * self.bias\n"
                                           "  return x + self.bias\n")),
                      1, false);
  try {
    chunk.capture();
    FAIL() << "captured";
  } catch (const graphs::CaptureError& error) {
    EXPECT_EQ(error.key(), (graphs::CaptureKey{1, Pass::Forward, false, 0}));
  }
}

TEST_F(ScriptReplay, ASettingOfTheAllocatorIsRefusedByName) {
  ::setenv("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync", 1);
  try {
    static_cast<void>(load(test::dropout_module()));
    ADD_FAILURE() << "loaded";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "PYTORCH_CUDA_ALLOC_CONF");
  }
  ::unsetenv("PYTORCH_CUDA_ALLOC_CONF");
}

TEST_F(ScriptReplay, AnUnseenShapeIsCapturedWhenItComes) {
  graphs::GraphCache::Options options;
  options.capture_unseen = true;
  CapturedChunk by_graphs(load(test::dropout_module()), kSlots, false, options);
  CapturedChunk by_calls(load(test::dropout_module()), kSlots, false);
  by_graphs.capture();
  const auto run = [](CapturedChunk& chunk, cuda::TaskCode& code) {
    chunk.zero_gradients();
    for (const std::int64_t rows : {2, 4, 2}) {
      chunk.arrive(1, 0);
      for (auto* edges : {&chunk.buffers(0).inputs, &chunk.buffers(0).output_grads})
        (*edges)[0][0].shape.extent[0] = rows;
      chunk.run(code, chunk.launch_of(Pass::Forward, 1, 0, false));
      chunk.run(code, chunk.launch_of(Pass::Backward, 1, 0, true));
    }
    return chunk.gradients();
  };
  const std::vector<at::Tensor> expected = run(by_calls, by_calls.eager());
  const std::vector<at::Tensor> found = run(by_graphs, by_graphs.cache());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(at::equal(found[i], expected[i])) << i;
  EXPECT_EQ(by_graphs.cache().statistics().eager, 0U);
}

}  // namespace
}  // namespace sluice::capture
