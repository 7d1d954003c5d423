#include "sluice/host/slot_buffers.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "dlpack_tensor.hpp"

namespace sluice::host {
namespace {

/// Chunks 0, 1 and 2 feed chunk 3 on the last stage, which also holds chunk 4.
Pipeline joined() {
  return {
      {{0, true}, {1, true}, {2, true}, {3, true}, {3, true}}, {{0, 3}, {1, 3}, {2, 3}, {3, 4}}, 4, false};
}

TEST(SlotBuffers, HasAPlaceForEachEdgeOfTheWidestChunk) {
  SlotBuffers buffers(joined(), 3, 5);
  EXPECT_EQ(buffers.size(), 5U);
  for (Slot slot = 0; slot < 5; ++slot) {
    EXPECT_EQ(buffers[slot].inputs.size(), 3U);
    EXPECT_EQ(buffers[slot].input_grads.size(), 3U);
    EXPECT_EQ(buffers[slot].input_shapes.size(), 3U);
    EXPECT_EQ(buffers[slot].outputs.size(), 1U);
    EXPECT_EQ(buffers[slot].output_grads.size(), 1U);
  }
}

TEST(SlotBuffers, ASourceHasNoInputsAndASinkNoOutputs) {
  const Pipeline pipeline = Pipeline::chain(2, 4);
  SlotBuffers source(pipeline, 0, 1);
  EXPECT_TRUE(source[0].inputs.empty());
  EXPECT_EQ(source[0].outputs.size(), 1U);
  SlotBuffers sink(pipeline, 1, 1);
  EXPECT_EQ(sink[0].inputs.size(), 1U);
  EXPECT_TRUE(sink[0].outputs.empty());
}

TEST(SlotBuffers, DeletesTheTensorsItStillHolds) {
  const std::int64_t before = test::live_tensors();
  {
    SlotBuffers buffers(Pipeline::chain(2, 4), 0, 2);
    buffers[0].outputs[0].push_back(test::make_vector({1}));
    buffers[1].output_grads[0].push_back(test::make_vector({2}));
    EXPECT_EQ(test::live_tensors(), before + 2);
  }
  EXPECT_EQ(test::live_tensors(), before);
}

TEST(PlaceOf, CountsAmongTheEdgesOfOneEnd) {
  const Pipeline pipeline = joined();
  EXPECT_EQ(place_of(pipeline.in_edges(3), 0), 0U);
  EXPECT_EQ(place_of(pipeline.in_edges(3), 2), 2U);
  EXPECT_EQ(place_of(pipeline.out_edges(3), 3), 0U);
}

}  // namespace
}  // namespace sluice::host
