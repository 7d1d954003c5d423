#include "../../../graphs/src/difference.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <dlpack/dlpack.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace sluice::graphs {
namespace {

template <typename T>
Difference between(const std::vector<T>& expected, const std::vector<T>& found, std::uint8_t code) {
  Difference difference;
  add_difference(std::as_bytes(std::span(expected)), std::as_bytes(std::span(found)), code, sizeof(T) * 8,
                 "x", difference);
  return difference;
}

TEST(Difference, EqualMemoryHasNone) {
  const Difference difference = between<float>({1, 2, 3}, {1, 2, 3}, kDLFloat);
  EXPECT_TRUE(difference.none());
  EXPECT_EQ(difference.max_abs, 0);
  EXPECT_TRUE(between<float>({}, {}, kDLFloat).none());
}

TEST(Difference, IsTheLargestAndAPartOfTheLargestValue) {
  const Difference difference = between<float>({1, -8, 0.5F}, {1.5F, -8, 2.5F}, kDLFloat);
  EXPECT_EQ(difference.max_abs, 2);
  EXPECT_EQ(difference.max_rel, 0.25);
  EXPECT_EQ(difference.bytes, 0U);
  EXPECT_EQ(difference.where, "element 0 of x (1.5 instead of 1)");
}

TEST(Difference, ReadsEveryTypeOfNumber) {
  EXPECT_EQ(between<double>({4}, {3}, kDLFloat).max_abs, 1);
  EXPECT_EQ(between<std::int8_t>({-4}, {3}, kDLInt).max_abs, 7);
  EXPECT_EQ(between<std::int32_t>({-4}, {3}, kDLInt).max_abs, 7);
  EXPECT_EQ(between<std::uint16_t>({65535}, {0}, kDLUInt).max_abs, 65535);
  EXPECT_EQ(between<__half>({__float2half(1.5F)}, {__float2half(-1.0F)}, kDLFloat).max_abs, 2.5);
  EXPECT_EQ(between<__nv_bfloat16>({__float2bfloat16(1.5F)}, {__float2bfloat16(-1.0F)}, kDLBfloat).max_abs,
            2.5);
  const std::int64_t large = std::int64_t{1} << 60;
  EXPECT_EQ(between<std::int64_t>({large}, {large + 1}, kDLInt).max_abs, 1);
}

TEST(Difference, OfOtherMemoryIsCountedByTheByte) {
  const Difference difference = between<std::uint32_t>({0x01020304, 5}, {0x01FF03FF, 5}, kDLOpaqueHandle);
  EXPECT_EQ(difference.bytes, 2U);
  EXPECT_EQ(difference.max_abs, 0);
  EXPECT_EQ(difference.where, "byte 0 of x");
}

TEST(Difference, WhatIsNoNumberIsInfinitelyFar) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(between<float>({nan, 1}, {nan, 1}, kDLFloat).none());
  EXPECT_TRUE(std::isinf(between<float>({nan}, {1}, kDLFloat).max_rel));
  EXPECT_TRUE(std::isinf(between<float>({1}, {std::numeric_limits<float>::infinity()}, kDLFloat).max_abs));
}

TEST(Difference, ZerosOfBothSignsAreAsGood) {
  const Difference difference = between<float>({0.0F}, {-0.0F}, kDLFloat);
  EXPECT_EQ(difference.max_abs, 0);
  EXPECT_EQ(difference.max_rel, 0);
}

TEST(Difference, AddsUpOverMemory) {
  Difference difference = between<float>({1}, {2}, kDLFloat);
  const std::vector<std::byte> expected(3, std::byte{1});
  const std::vector<std::byte> found(3, std::byte{2});
  add_difference(expected, found, kDLOpaqueHandle, 8, "y", difference);
  EXPECT_EQ(difference.max_abs, 1);
  EXPECT_EQ(difference.bytes, 3U);
  EXPECT_THAT(difference.where, ::testing::HasSubstr("of x"));
}

}  // namespace
}  // namespace sluice::graphs
