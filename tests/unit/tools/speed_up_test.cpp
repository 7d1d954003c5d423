#include "run/speed_up.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace sluice::tools {
namespace {

TEST(SpeedUp, Medians) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
}

TEST(SpeedUp, IsOfTheMediansAndRangesOverThePairs) {
  const std::vector<double> first{4, 6, 8};
  const std::vector<double> other{2, 2, 4};
  const SpeedUp result = speed_up(first, other);
  EXPECT_EQ(result.of_medians, 3);
  EXPECT_EQ(result.lowest, 2);
  EXPECT_EQ(result.highest, 3);
}

TEST(SpeedUp, OverWhatTakesNoTimeIsOne) {
  const std::vector<double> first{1};
  const std::vector<double> other{0};
  EXPECT_EQ(speed_up(first, other).of_medians, 1);
}

}  // namespace
}  // namespace sluice::tools
