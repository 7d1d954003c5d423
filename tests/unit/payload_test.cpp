#include "sluice/host/payload.hpp"

#include <dlpack/dlpack.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "dlpack_tensor.hpp"
#include "sluice/error.hpp"

namespace sluice::host {
namespace {

TensorShape shape(std::uint8_t code, std::uint8_t bits, std::initializer_list<std::int64_t> extents) {
  TensorShape result;
  result.dtype_code = code;
  result.dtype_bits = bits;
  for (const std::int64_t extent : extents) result.extent[result.rank++] = extent;
  return result;
}

/// A tensor without a manager, on the test's stack.
struct Bare {
  Bare(std::vector<std::int64_t> extents_, DLDataType type) : extents(std::move(extents_)) {
    tensor.dl_tensor.ndim = static_cast<int>(extents.size());
    tensor.dl_tensor.dtype = type;
    tensor.dl_tensor.shape = extents.data();
  }

  std::vector<std::int64_t> extents;
  DLManagedTensor tensor{};
};

TEST(ShapeOf, TellsTypeAndExtents) {
  const Bare bare({4, 64, 96}, {kDLFloat, 32, 1});
  EXPECT_EQ(shape_of(bare.tensor), shape(kDLFloat, 32, {4, 64, 96}));
}

TEST(ShapeOf, AScalarHasNoExtents) {
  const Bare bare({}, {kDLInt, 64, 1});
  EXPECT_EQ(shape_of(bare.tensor), shape(kDLInt, 64, {}));
}

TEST(ShapeOf, TakesAsManyDimensionsAsAHeaderHolds) {
  const Bare bare(std::vector<std::int64_t>(TensorShape::kMaxRank, 2), {kDLUInt, 8, 1});
  EXPECT_EQ(shape_of(bare.tensor), shape(kDLUInt, 8, {2, 2, 2, 2, 2, 2, 2, 2}));
}

TEST(ShapeOf, RefusesMoreDimensions) {
  const Bare bare(std::vector<std::int64_t>(TensorShape::kMaxRank + 1, 2), {kDLFloat, 32, 1});
  try {
    (void)shape_of(bare.tensor);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "a tensor of 9 dimensions cannot be sent, at most 8 can");
  }
}

TEST(ShapeOf, RefusesANegativeNumberOfDimensions) {
  Bare bare({}, {kDLFloat, 32, 1});
  bare.tensor.dl_tensor.ndim = -1;
  EXPECT_THROW((void)shape_of(bare.tensor), Error);
}

TEST(TensorShape, DiffersByTypeRankAndExtent) {
  const TensorShape base = shape(kDLFloat, 32, {2, 3});
  EXPECT_NE(base, shape(kDLInt, 32, {2, 3}));
  EXPECT_NE(base, shape(kDLFloat, 16, {2, 3}));
  EXPECT_NE(base, shape(kDLFloat, 32, {3, 2}));
  EXPECT_NE(base, shape(kDLFloat, 32, {2, 3, 1}));
}

TEST(BytesOf, CountsAllElements) {
  EXPECT_EQ(bytes_of(shape(kDLFloat, 32, {4, 64, 96})), 4U * 64 * 96 * 4);
  EXPECT_EQ(bytes_of(shape(kDLFloat, 64, {})), 8U);
  EXPECT_EQ(bytes_of(shape(kDLBfloat, 16, {5})), 10U);
  EXPECT_EQ(bytes_of(shape(kDLUInt, 1, {3})), 3U) << "an element takes whole bytes";
  EXPECT_EQ(bytes_of(shape(kDLFloat, 32, {4, 0, 96})), 0U);
}

TEST(IsAbsent, AnEmptyVectorOfBytesAlone) {
  EXPECT_TRUE(is_absent(shape(kDLUInt, 8, {0})));
  EXPECT_FALSE(is_absent(shape(kDLUInt, 8, {1})));
  EXPECT_FALSE(is_absent(shape(kDLUInt, 8, {0, 2})));
  EXPECT_FALSE(is_absent(shape(kDLUInt, 16, {0})));
  EXPECT_FALSE(is_absent(shape(kDLFloat, 32, {0})));
  EXPECT_FALSE(is_absent(shape(kDLInt, 8, {0})));
}

TEST(ToString, NamesTypeAndExtents) {
  EXPECT_EQ(to_string(shape(kDLFloat, 32, {4, 64, 96})), "float32[4, 64, 96]");
  EXPECT_EQ(to_string(shape(kDLBfloat, 16, {7})), "bfloat16[7]");
  EXPECT_EQ(to_string(shape(kDLInt, 64, {})), "int64[]");
  EXPECT_EQ(to_string(shape(200, 8, {1})), "type8[1]");
}

TEST(TensorPtr, CallsTheTensorsDeleterOnce) {
  const std::int64_t before = test::live_tensors();
  {
    TensorPtr first = test::make_vector({1, 2, 3});
    EXPECT_EQ(test::live_tensors(), before + 1);
    const TensorPtr second = std::move(first);
    EXPECT_EQ(test::live_tensors(), before + 1);
  }
  EXPECT_EQ(test::live_tensors(), before);
}

TEST(TensorPtr, ATensorMayHaveNoDeleter) {
  Bare bare({1}, {kDLFloat, 32, 1});
  const TensorPtr tensor(&bare.tensor);
  EXPECT_EQ(tensor.get(), &bare.tensor);
}

}  // namespace
}  // namespace sluice::host
