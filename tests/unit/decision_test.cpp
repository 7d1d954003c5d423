#include "sluice/decision.hpp"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(DecisionLog, AppendsWithinItsRoomAndCountsWhatItDrops) {
  DecisionLog log;
  log.append({});
  EXPECT_EQ(log.dropped(), 1U);
  log.reserve_more(2);
  const std::size_t room = 2;
  for (std::size_t i = 0; i < room; ++i) log.append({{static_cast<Microbatch>(i), 0, Pass::Forward}});
  ASSERT_EQ(log.decisions().size(), room);
  EXPECT_EQ(log.decisions()[1].task.microbatch, 1U);
}

TEST(DecisionLog, MakingRoomAgainAndAgainCopiesRarely) {
  DecisionLog log;
  std::size_t moves = 0;
  const Decision* first = nullptr;
  constexpr std::size_t kIterations = 1000;
  for (std::size_t i = 0; i < kIterations; ++i) {
    log.reserve_more(1);
    log.append({});
    if (log.decisions().data() != first) ++moves;
    first = log.decisions().data();
  }
  EXPECT_EQ(log.dropped(), 0U);
  EXPECT_LE(moves, 11U);
}

TEST(DecisionLog, ClearForgetsEverything) {
  DecisionLog log;
  log.append({});
  log.reserve_more(1);
  log.append({});
  log.clear();
  EXPECT_TRUE(log.decisions().empty());
  EXPECT_EQ(log.dropped(), 0U);
}

}  // namespace
}  // namespace sluice
