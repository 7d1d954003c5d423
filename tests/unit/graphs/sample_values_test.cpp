#include "../../../graphs/src/sample_values.hpp"

#include <cuda_fp16.h>
#include <dlpack/dlpack.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

namespace sluice::graphs {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Ge;
using ::testing::Le;

template <typename T>
std::vector<T> values_of(std::uint8_t code, std::size_t count, std::uint64_t salt = 1) {
  const std::vector<std::byte> bytes = sample_values(code, sizeof(T) * 8, count * sizeof(T), salt);
  std::vector<T> values(count);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(SampleValues, FloatsAreBetweenMinusOneAndOne) {
  const std::vector<float> values = values_of<float>(kDLFloat, 20000);
  EXPECT_THAT(values, Each(AllOf(Ge(-1), Le(1))));
  EXPECT_GT(std::set<float>(values.begin(), values.end()).size(), 4000U);
  EXPECT_THAT(values_of<double>(kDLFloat, 100), Each(AllOf(Ge(-1), Le(1))));
  for (const __half value : values_of<__half>(kDLFloat, 100)) EXPECT_LE(std::abs(__half2float(value)), 1);
}

TEST(SampleValues, WholeNumbersAreZeroOrOne) {
  const std::vector<std::int64_t> values = values_of<std::int64_t>(kDLInt, 100);
  EXPECT_EQ(std::set<std::int64_t>(values.begin(), values.end()), (std::set<std::int64_t>{0, 1}));
}

TEST(SampleValues, AreTheSameForTheSameSaltOnly) {
  EXPECT_EQ(values_of<float>(kDLFloat, 50, 3), values_of<float>(kDLFloat, 50, 3));
  EXPECT_NE(values_of<float>(kDLFloat, 50, 3), values_of<float>(kDLFloat, 50, 4));
}

TEST(SampleValues, WhatIsNoNumberIsZero) {
  EXPECT_THAT(sample_values(kDLOpaqueHandle, 8, 10, 1), Each(std::byte{0}));
  EXPECT_THAT(sample_values(kDLFloat, 64, 5, 1), ::testing::SizeIs(5));
  EXPECT_THAT(sample_values(kDLFloat, 32, 0, 1), ::testing::IsEmpty());
}

}  // namespace
}  // namespace sluice::graphs
