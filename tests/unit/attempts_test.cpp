#include "sluice/agree/attempts.hpp"

#include <gtest/gtest.h>

namespace sluice::agree {
namespace {

using Fault = Attempts::Fault;

TEST(Attempts, IsCompleteWhenEveryMemberHasContributed) {
  Attempts attempts(3, 0);
  EXPECT_EQ(attempts.current(), 1U);
  EXPECT_EQ(attempts.contribute(2, 1), Fault::None);
  EXPECT_TRUE(attempts.has_contributed(2));
  EXPECT_FALSE(attempts.joined());
  EXPECT_EQ(attempts.contribute(0, 1), Fault::None);
  EXPECT_TRUE(attempts.joined());
  EXPECT_FALSE(attempts.complete());
  EXPECT_EQ(attempts.contribute(1, 1), Fault::None);
  EXPECT_TRUE(attempts.complete());
  attempts.conclude();
  EXPECT_EQ(attempts.current(), 2U);
  EXPECT_FALSE(attempts.joined());
  EXPECT_FALSE(attempts.has_contributed(2));
}

TEST(Attempts, APeerMayBeOneAhead) {
  Attempts attempts(3, 0);
  EXPECT_EQ(attempts.contribute(0, 1), Fault::None);
  EXPECT_EQ(attempts.contribute(2, 1), Fault::None);
  EXPECT_EQ(attempts.contribute(2, 2), Fault::None) << "it has all of attempt 1, this rank not yet";
  EXPECT_EQ(attempts.contribute(2, 3), Fault::OutOfOrder);
  EXPECT_EQ(attempts.contribute(1, 1), Fault::None);
  attempts.conclude();
  EXPECT_TRUE(attempts.has_contributed(2));
  EXPECT_FALSE(attempts.has_contributed(1));
}

TEST(Attempts, NobodyIsAheadOfOneThatThisRankHasNotJoined) {
  Attempts attempts(2, 0);
  EXPECT_EQ(attempts.contribute(1, 1), Fault::None);
  EXPECT_EQ(attempts.contribute(1, 2), Fault::OutOfOrder);
}

TEST(Attempts, RefusesWhatComesTwiceAndGaps) {
  Attempts attempts(2, 0);
  EXPECT_EQ(attempts.contribute(1, 0), Fault::Repeated);
  EXPECT_EQ(attempts.contribute(1, 2), Fault::OutOfOrder);
  EXPECT_EQ(attempts.contribute(1, 1), Fault::None);
  EXPECT_EQ(attempts.contribute(1, 1), Fault::Repeated);
}

}  // namespace
}  // namespace sluice::agree
