#include "sluice/cuda/slot_memory.hpp"

#include <dlpack/dlpack.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "sluice/cuda/cuda_error.hpp"
#include "sluice/error.hpp"

namespace sluice::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TensorShape floats(std::int64_t rows, std::int64_t columns) {
  TensorShape shape;
  shape.dtype_code = kDLFloat;
  shape.dtype_bits = 32;
  shape.rank = 2;
  shape.extent[0] = rows;
  shape.extent[1] = columns;
  return shape;
}

class SlotMemoryTest : public ::testing::Test {
 protected:
  [[nodiscard]] SlotMemoryPlan plan(StageId stage) const { return {pipeline_, stage, layouts_, chunks_}; }

  std::string refusal_of(const SlotMemoryPlan& plan, std::uint32_t slots, const char* field) {
    try {
      const SlotMemory memory(plan, slots);
      return "accepted";
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.field(), field);
      return error.what();
    }
  }

  Pipeline pipeline_ = Pipeline::chain(3, 8);
  /// 4 x 10 floats take 160 bytes; the second edge carries two tensors.
  std::vector<EdgeLayout> layouts_{{floats(4, 10)}, {floats(4, 10), floats(1, 1)}};
  std::vector<ChunkMemory> chunks_{{1000, 300}};
};

using Range = std::pair<std::byte*, std::byte*>;

void add(const std::vector<std::vector<SlotTensor>>& edges, std::vector<Range>& ranges) {
  for (const auto& edge : edges) {
    for (const SlotTensor& tensor : edge) ranges.emplace_back(tensor.data, tensor.data + tensor.capacity);
  }
}

std::vector<Range> ranges_of(const SlotBuffers& buffers) {
  std::vector<Range> ranges;
  for (const auto* edges : {&buffers.inputs, &buffers.outputs, &buffers.output_grads, &buffers.input_grads})
    add(*edges, ranges);
  if (buffers.saved != nullptr) ranges.emplace_back(buffers.saved, buffers.saved + buffers.saved_bytes);
  return ranges;
}

void expect_apart_and_inside(std::vector<Range> ranges, const DeviceMemory& block) {
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(ranges[i].first) % 256, 0U);
    const bool apart = i == 0 || ranges[i - 1].second <= ranges[i].first;
    EXPECT_TRUE(apart) << i;
  }
  EXPECT_GE(ranges.front().first, block.data());
  EXPECT_LE(ranges.back().second, block.data() + block.size());
}

TEST_F(SlotMemoryTest, GivesEachSlotItsOwnAlignedPieces) {
  SlotMemory memory(plan(1), 5);
  EXPECT_EQ(memory.slots(), 5U);
  std::vector<Range> all;
  for (Slot slot = 0; slot < 5; ++slot) {
    const SlotBuffers& buffers = memory.at(0, slot);
    ASSERT_EQ(buffers.inputs.size(), 1U);
    ASSERT_EQ(buffers.outputs.size(), 1U);
    EXPECT_EQ(buffers.inputs[0].size(), 1U);
    EXPECT_EQ(buffers.outputs[0].size(), 2U);
    EXPECT_EQ(buffers.output_grads[0].size(), 2U);
    EXPECT_EQ(buffers.input_grads[0].size(), 1U);
    EXPECT_EQ(buffers.inputs[0][0].capacity, 160U);
    EXPECT_EQ(buffers.outputs[0][1].capacity, 4U);
    EXPECT_EQ(buffers.input_grads[0][0].shape, floats(4, 10));
    EXPECT_EQ(buffers.saved_bytes, 1000U);
    for (const Range& range : ranges_of(buffers)) all.push_back(range);
  }
  EXPECT_EQ(all.size(), 5U * 7);
  expect_apart_and_inside(all, memory.block());
}

TEST_F(SlotMemoryTest, SourcesAndSinksHaveNoEdgesThere) {
  SlotMemory source(plan(0), 1);
  EXPECT_TRUE(source.at(0, 0).inputs.empty());
  EXPECT_TRUE(source.at(0, 0).input_grads.empty());
  EXPECT_EQ(source.at(0, 0).outputs.size(), 1U);
  SlotMemory sink(plan(2), 1);
  EXPECT_TRUE(sink.at(0, 0).outputs.empty());
  EXPECT_TRUE(sink.at(0, 0).output_grads.empty());
}

TEST_F(SlotMemoryTest, ReportsWhatItTakes) {
  const SlotMemory memory(plan(1), 5);
  // 1000 saved, two tensors of 160, and twice two of 160 and 4, each up to a multiple of 256.
  EXPECT_EQ(memory.bytes().saved_per_slot, 1024U + 2 * 256 + 2 * (256 + 256));
  EXPECT_EQ(memory.bytes().temporary, 512U);
  EXPECT_EQ(memory.bytes().total, 5 * memory.bytes().saved_per_slot + 512);
  EXPECT_EQ(memory.block().size(), 5 * memory.bytes().saved_per_slot);
}

TEST_F(SlotMemoryTest, TheBlockMayComeFromElsewhereAndBeLonger) {
  SlotMemoryPlan longer = plan(1);
  std::size_t asked = 0;
  longer.block_source = [&](std::size_t bytes, const char* what) {
    asked = bytes;
    return DeviceMemory(bytes + 4096, what);
  };
  SlotMemory memory(longer, 5);
  EXPECT_EQ(asked, 5 * memory.bytes().saved_per_slot);
  EXPECT_EQ(memory.block().size(), asked + 4096);
  EXPECT_EQ(memory.bytes().total, memory.block().size() + 512);
  std::vector<Range> all;
  for (Slot slot = 0; slot < 5; ++slot) {
    for (const Range& range : ranges_of(memory.at(0, slot))) all.push_back(range);
  }
  expect_apart_and_inside(all, memory.block());
}

TEST_F(SlotMemoryTest, SharesTemporariesWithinALaneOnly) {
  SlotMemoryPlan separate = plan(1);
  separate.lanes = {Lane::Compute, Lane::Compute, Lane::WeightGrad};
  const SlotMemory memory(separate, 2);
  std::byte* const compute = memory.temporary(Lane::Compute);
  std::byte* const weight_grad = memory.temporary(Lane::WeightGrad);
  ASSERT_NE(compute, nullptr);
  ASSERT_NE(weight_grad, nullptr);
  EXPECT_GE(std::max(compute, weight_grad) - std::min(compute, weight_grad), 300);
  EXPECT_EQ(memory.temporary(Lane::Reduction), nullptr);
  EXPECT_EQ(memory.bytes().total, 2 * memory.bytes().saved_per_slot + 2 * 512);
}

/// A slot takes a microbatch of either chunk, so it is as large as the larger.
TEST_F(SlotMemoryTest, TheChunksOfAStageUseTheSameSlots) {
  const Pipeline pipeline = Pipeline::interleaved(2, 2, 4);
  const std::vector<EdgeLayout> layouts(3, {floats(4, 10)});
  const std::vector<ChunkMemory> chunks{{5000, 0}, {100, 700}};
  SlotMemory memory({pipeline, 0, layouts, chunks}, 3);
  EXPECT_EQ(memory.bytes().saved_per_slot, 5120U + 2 * 256);
  EXPECT_EQ(memory.bytes().temporary, 768U);
  for (std::uint32_t position = 0; position < 2; ++position) {
    std::vector<Range> all;
    for (Slot slot = 0; slot < 3; ++slot) {
      for (const Range& range : ranges_of(memory.at(position, slot))) all.push_back(range);
    }
    expect_apart_and_inside(all, memory.block());
  }
}

TEST_F(SlotMemoryTest, FindsTheMostSlotsOfABudget) {
  const SlotMemoryBytes one = SlotMemory::bytes_for(plan(1), 1);
  EXPECT_EQ(SlotMemory::slots_within(one.total, plan(1)), 1U);
  EXPECT_EQ(SlotMemory::slots_within(one.total - 1, plan(1)), 0U);
  EXPECT_EQ(SlotMemory::slots_within(0, plan(1)), 0U);
  for (const std::uint32_t slots : {2U, 7U, 32U}) {
    const std::size_t budget = SlotMemory::bytes_for(plan(1), slots).total;
    EXPECT_EQ(SlotMemory::slots_within(budget, plan(1)), slots);
    EXPECT_EQ(SlotMemory::slots_within(budget + one.saved_per_slot - 1, plan(1)), slots);
  }
}

TEST_F(SlotMemoryTest, AStageThatNeedsNoMemoryGetsNone) {
  layouts_ = {{}, {}};
  chunks_ = {{}};
  SlotMemory memory(plan(1), 4);
  EXPECT_EQ(memory.bytes().total, 0U);
  EXPECT_EQ(memory.block().data(), nullptr);
  EXPECT_EQ(memory.temporary(Lane::Compute), nullptr);
  EXPECT_EQ(memory.at(0, 3).saved, nullptr);
  EXPECT_EQ(SlotMemory::slots_within(0, plan(1)), std::numeric_limits<std::uint32_t>::max());
}

TEST_F(SlotMemoryTest, RefusesWhatDoesNotFitThePipeline) {
  EXPECT_THAT(refusal_of(plan(1), 0, "slots"), HasSubstr("at least one"));
  SlotMemoryPlan too_few = plan(1);
  too_few.layouts = too_few.layouts.first(1);
  EXPECT_THAT(refusal_of(too_few, 1, "layouts"), HasSubstr("1 given for 2 edges"));
  SlotMemoryPlan no_chunks = plan(1);
  no_chunks.chunks = {};
  EXPECT_THAT(refusal_of(no_chunks, 1, "chunks"), HasSubstr("0 given for the 1 chunks of stage 1"));
}

TEST_F(SlotMemoryTest, RefusesBadTensorsByName) {
  layouts_[1][1].dtype_bits = 0;
  EXPECT_THAT(refusal_of(plan(1), 1, "layouts"), HasSubstr("tensor 1 of edge 1"));
  layouts_[1][1] = floats(-1, 3);
  EXPECT_THAT(refusal_of(plan(1), 1, "layouts"), HasSubstr("tensor 1 of edge 1"));
  layouts_[1][1] = floats(std::int64_t{1} << 40, std::int64_t{1} << 40);
  EXPECT_THAT(refusal_of(plan(1), 1, "layouts"), HasSubstr("larger than any device"));
  layouts_[1][1] = floats(1, 1);
  layouts_[1][1].rank = 9;
  EXPECT_THAT(refusal_of(plan(1), 1, "layouts"), HasSubstr("more than 8 dimensions"));
}

TEST_F(SlotMemoryTest, RefusesSizesThatWouldOverflow) {
  chunks_[0].saved_bytes = std::numeric_limits<std::size_t>::max();
  EXPECT_THAT(refusal_of(plan(1), 1, "chunks"), HasSubstr("what chunk 1 saves"));
  chunks_[0] = {0, std::numeric_limits<std::size_t>::max() - 5};
  EXPECT_THAT(refusal_of(plan(1), 1, "chunks"), HasSubstr("temporary memory of chunk 1"));
  chunks_[0] = {std::size_t{1} << 49, 0};
  EXPECT_THAT(refusal_of(plan(1), 1000, "slots"), HasSubstr("larger than any device"));
}

TEST_F(SlotMemoryTest, RunningOutSaysWhichLimitWouldFit) {
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "asking for the free memory");
  // Ten slots' worth is free: thirty cannot be had, whatever else the device holds back.
  chunks_[0] = {free / 10, 0};
  try {
    const SlotMemory memory(plan(1), 30);
    FAIL() << "allocated";
  } catch (const CudaError& error) {
    EXPECT_EQ(error.code(), cudaErrorMemoryAllocation);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("30 slots of stage 1"),
                      HasSubstr(std::to_string(SlotMemory::bytes_for(plan(1), 30).total) + " bytes"),
                      HasSubstr("are free"), HasSubstr("a limit of 9 would fit")));
  }
}

TEST_F(SlotMemoryTest, RunningOutSaysSoIfNoLimitFits) {
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "asking for the free memory");
  chunks_[0] = {2 * total, 0};
  try {
    const SlotMemory memory(plan(1), 1);
    FAIL() << "allocated";
  } catch (const CudaError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no limit fits"));
  }
}

}  // namespace
}  // namespace sluice::cuda
