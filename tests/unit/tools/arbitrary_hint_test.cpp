#include "method/arbitrary_hint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sluice/error.hpp"

namespace sluice::tools {
namespace {

std::vector<std::string> order_of(const Hint& hint) {
  std::vector<std::string> order;
  for (std::uint32_t rank = 0; rank < hint.class_size(0); ++rank)
    order.push_back(to_string(hint.task(0, rank)));
  return order;
}

TEST(ArbitraryHint, ReversedStartsWithTheLastTask) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  const Task last{1, 1, Pass::WeightGrad};
  const Task first{0, 1, Pass::Forward};
  const Hint hint = arbitrary_hint("reversed", pipeline, 1);
  EXPECT_EQ(hint.rule(), RoundRule::Priority);
  const std::vector<std::string> order = order_of(hint);
  ASSERT_EQ(order.size(), 6);
  EXPECT_EQ(order.front(), to_string(last));
  EXPECT_EQ(order.back(), to_string(first));
}

TEST(ArbitraryHint, RandomOrdersHoldAllTasksAndDependOnSeedAndStage) {
  const Pipeline pipeline = Pipeline::interleaved(2, 2, 8);
  const std::vector<std::string> once = order_of(arbitrary_hint("random:1", pipeline, 0));
  EXPECT_THAT(order_of(arbitrary_hint("reversed", pipeline, 0)), testing::UnorderedElementsAreArray(once));
  EXPECT_EQ(order_of(arbitrary_hint("random:1", pipeline, 0)), once);
  EXPECT_NE(order_of(arbitrary_hint("random:2", pipeline, 0)), once);
  EXPECT_NE(order_of(arbitrary_hint("random:1", pipeline, 1)).front(), once.front());
}

TEST(ArbitraryHint, RefusesWhatItIsNot) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  EXPECT_TRUE(is_arbitrary_hint("reversed"));
  EXPECT_TRUE(is_arbitrary_hint("random:7"));
  EXPECT_FALSE(is_arbitrary_hint("bf"));
  for (const char* name :
       {"bf", "random:", "random:x", "random:1x", "random:-1", "random:99999999999999999999", ""})
    EXPECT_THROW((void)arbitrary_hint(name, pipeline, 0), ConfigError) << name;
}

}  // namespace
}  // namespace sluice::tools
