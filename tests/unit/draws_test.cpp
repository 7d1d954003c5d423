#include "sluice/host/draws.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>
#include <vector>

namespace sluice::host::draws {
namespace {

constexpr std::uint64_t kDraws = 200'000;

struct Moments {
  double mean = 0;
  double variance = 0;
};

Moments moments(double (*draw)(Key)) {
  double sum = 0;
  double squares = 0;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const double x = draw({7, i, 3});
    sum += x;
    squares += x * x;
  }
  const double mean = sum / kDraws;
  return {mean, squares / kDraws - mean * mean};
}

// Computed by an independent implementation of the definition.
TEST(Draws, AreTheSameOnEveryMachine) {
  EXPECT_EQ(bits({}), 0xe220a8397b1dcdafU);
  EXPECT_EQ(bits({0}), 0x5e41ab087439611eU);
  EXPECT_EQ(bits({1, 2, 3}), 0x4e2889b21ba43ff3U);
  EXPECT_EQ(uniform({1, 2, 3}), 0x1.38a226c86e90ep-2);
  EXPECT_NEAR(normal({1, 2, 3}), 0.2983520068162343, 1e-12);
  EXPECT_NEAR(exponential({1, 2, 3}), 0.3642839028814739, 1e-12);
}

TEST(Draws, DependOnOrderAndNumberOfTheKey) {
  const std::vector<std::uint64_t> all = {bits({}),     bits({0}),    bits({0, 0}), bits({1}),   bits({1, 0}),
                                          bits({0, 1}), bits({1, 1}), bits({2}),    bits({2, 0})};
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), all.size());
}

TEST(Draws, NeighbouringKeysShareNoPattern) {
  // Each of 64 output bits flips with probability one half when one input bit flips.
  double flipped = 0;
  constexpr std::uint64_t keys = 2'000;
  for (std::uint64_t i = 0; i < keys; ++i) {
    flipped += std::popcount(bits({1, i}) ^ bits({1, i ^ 1}));
  }
  EXPECT_NEAR(flipped / keys, 32, 0.5);
}

TEST(Draws, UniformFillsTheUnitInterval) {
  const auto [mean, variance] = moments(uniform);
  EXPECT_NEAR(mean, 0.5, 0.003);
  EXPECT_NEAR(variance, 1.0 / 12, 0.001);
  std::vector<int> bins(20);
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const double x = uniform({11, i});
    ASSERT_GE(x, 0);
    ASSERT_LT(x, 1);
    ++bins[static_cast<std::size_t>(x * 20)];
  }
  for (const int bin : bins) EXPECT_NEAR(bin, kDraws / 20.0, 400);  // four standard deviations
}

TEST(Draws, NormalHasItsMomentsAndTails) {
  const auto [mean, variance] = moments(normal);
  EXPECT_NEAR(mean, 0, 0.01);
  EXPECT_NEAR(variance, 1, 0.015);
  int beyond_two = 0;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const double x = normal({13, i});
    ASSERT_LE(std::abs(x), kMaxNormal);
    beyond_two += std::abs(x) > 2;
  }
  EXPECT_NEAR(beyond_two / double{kDraws}, 0.0455, 0.002);
}

TEST(Draws, ExponentialHasItsMomentsAndTail) {
  const auto [mean, variance] = moments(exponential);
  EXPECT_NEAR(mean, 1, 0.01);
  EXPECT_NEAR(variance, 1, 0.03);
  int beyond_three = 0;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const double x = exponential({17, i});
    ASSERT_GE(x, 0);
    ASSERT_LE(x, kMaxExponential);
    beyond_three += x > 3;
  }
  EXPECT_NEAR(beyond_three / double{kDraws}, std::exp(-3), 0.002);
}

}  // namespace
}  // namespace sluice::host::draws
