#include "sluice/ready_set.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>
#include <vector>

#include "sluice/error.hpp"

namespace sluice {
namespace {

TEST(ReadySet, AnEmptySetHasNoFirst) {
  ReadySet set(100);
  EXPECT_TRUE(set.empty());
  EXPECT_EQ(set.first(), ReadySet::kNone);
  EXPECT_EQ(set.next(0), ReadySet::kNone);
  EXPECT_EQ(ReadySet(0).first(), ReadySet::kNone);
}

/// Around the borders of words and levels.
class ReadySetCapacity : public testing::TestWithParam<std::uint32_t> {};

TEST_P(ReadySetCapacity, TheLastRankIsFoundAndErased) {
  ReadySet set(GetParam());
  set.insert(GetParam() - 1);
  EXPECT_EQ(set.first(), GetParam() - 1);
  EXPECT_TRUE(set.contains(GetParam() - 1));
  set.insert(0);
  EXPECT_EQ(set.first(), 0U);
  set.erase(0);
  set.erase(GetParam() - 1);
  EXPECT_TRUE(set.empty());
  EXPECT_EQ(set.size(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Borders, ReadySetCapacity, testing::Values(2, 64, 65, 4096, 4097, 262'144, 262'145));

TEST(ReadySet, MoreThanFourLevelsAreRefused) { EXPECT_THROW(ReadySet(1'200'000'000), ConfigError); }

TEST(ReadySet, ClearForgetsEverything) {
  ReadySet set(5000);
  for (const std::uint32_t rank : {0U, 63U, 64U, 4999U}) set.insert(rank);
  set.clear();
  EXPECT_TRUE(set.empty());
  EXPECT_FALSE(set.contains(4999));
  set.insert(70);
  EXPECT_EQ(set.first(), 70U);
}

RC_GTEST_PROP(ReadySet, BehavesAsAnOrderedSet, ()) {
  const auto capacity = *rc::gen::element<std::uint32_t>(1, 63, 64, 65, 200, 4096, 4097, 10'000);
  ReadySet set(capacity);
  std::set<std::uint32_t> model;
  const auto steps = *rc::gen::container<std::vector<std::pair<bool, std::uint32_t>>>(
      rc::gen::pair(rc::gen::arbitrary<bool>(), rc::gen::inRange<std::uint32_t>(0, capacity)));
  for (const auto& [insert, rank] : steps) {
    if (insert) {
      set.insert(rank);
      model.insert(rank);
    } else {
      set.erase(rank);
      model.erase(rank);
    }
    RC_ASSERT(set.size() == model.size());
    RC_ASSERT(set.contains(rank) == model.contains(rank));
    RC_ASSERT(set.first() == (model.empty() ? ReadySet::kNone : *model.begin()));
    const auto above = model.upper_bound(rank);
    RC_ASSERT(set.next(rank) == (above == model.end() ? ReadySet::kNone : *above));
  }
}

}  // namespace
}  // namespace sluice
