#include "slot_tensors.hpp"

#include <ATen/ATen.h>
#include <dlpack/dlpack.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host_slot.hpp"
#include "sluice/error.hpp"

namespace sluice::capture {
namespace {

TEST(SlotTensors, AShapeNamesTypeAndExtents) {
  const TensorShape shape = shape_of(at::zeros({4, 1, 7}, at::kBFloat16));
  EXPECT_EQ(shape, (TensorShape{kDLBfloat, 16, 3, {4, 1, 7}}));
  EXPECT_EQ(shape_of(at::zeros({}, at::kLong)), (TensorShape{kDLInt, 64, 0, {}}));
}

TEST(SlotTensors, RefusesMoreDimensionsThanAMessageHas) {
  EXPECT_THROW(static_cast<void>(shape_of(at::zeros({1, 1, 1, 1, 1, 1, 1, 1, 1}))), Error);
}

TEST(SlotTensors, AViewIsTheSlotsMemory) {
  test::HostSlot slot({{kDLInt, 64, 2, {2, 3}}}, {}, 64);
  const at::Tensor view = slot.input();
  EXPECT_EQ(view.data_ptr(), slot.buffers().inputs[0][0].data);
  EXPECT_EQ(view.scalar_type(), at::kLong);
  EXPECT_THAT(view.sizes(), ::testing::ElementsAre(2, 3));
}

TEST(SlotTensors, StoringGivesTheSlotTheTensorsShape) {
  test::HostSlot slot({{kDLFloat, 32, 2, {4, 6}}}, {}, 64);
  cuda::SlotTensor& place = slot.buffers().inputs[0][0];
  const at::Tensor smaller = at::arange(6, at::kFloat).view({3, 2}).t();
  store(smaller, place, at::kCPU, "x");
  EXPECT_EQ(place.shape, (TensorShape{kDLFloat, 32, 2, {2, 3}}));
  EXPECT_TRUE(at::equal(slot.input(), smaller));
}

TEST(SlotTensors, StoringRefusesWhatHasNoRoom) {
  test::HostSlot slot({{kDLFloat, 32, 1, {4}}}, {}, 64);
  try {
    store(at::zeros({5}), slot.buffers().inputs[0][0], at::kCPU, "result 2");
    FAIL() << "stored";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "result 2 has 20 bytes, its place in the slot 16");
  }
  EXPECT_EQ(slot.buffers().inputs[0][0].shape.extent[0], 4);
}

TEST(SlotTensors, TheMemoryOfADenseTensorIsKnown) {
  const at::Tensor tensor = at::zeros({3, 2}, at::kHalf).t();
  const cuda::DeviceSpan span = span_of(tensor, "w");
  EXPECT_EQ(span.data, tensor.data_ptr());
  EXPECT_EQ(span.bytes, 12U);
  EXPECT_EQ(span.dtype_code, kDLFloat);
  EXPECT_EQ(span.dtype_bits, 16);
  EXPECT_THROW(static_cast<void>(span_of(at::zeros({4, 4}).narrow(1, 0, 2), "w")), Error);
}

}  // namespace
}  // namespace sluice::capture
