#include "sluice/agree/first_pick_agreement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hand_group.hpp"
#include "tasks.hpp"

namespace sluice::agree {
namespace {

using test::backward;
using test::forward;

TEST(FirstPickAgreement, DefersWhileFirstPicksDifferAlthoughATaskIsCommon) {
  test::HandGroup group(Form::FirstPick, 2);
  group.begin();
  group.runnable(0, forward(2));
  group.runnable(forward(4));
  EXPECT_THAT(group.poll_all(), testing::Each(std::nullopt));
  EXPECT_EQ(group.agreements[0]->statistics().deferrals, 1U);
  group.runnable(1, forward(2));
  EXPECT_THAT(group.poll_all(), testing::Each(std::optional(forward(2))));
  const AgreementStatistics statistics = group.agreements[1]->statistics();
  EXPECT_EQ(statistics.attempts, 2U);
  EXPECT_EQ(statistics.decisions, 1U);
  EXPECT_EQ(statistics.picks_differed, 1U);
}

TEST(FirstPickAgreement, AMemberWithoutAPickJoinsOnceItHasOne) {
  test::HandGroup group(Form::FirstPick, 2);
  group.begin();
  group.runnable(0, forward(2));
  EXPECT_THAT(group.poll_all(), testing::Each(std::nullopt));
  EXPECT_EQ(group.agreements[0]->statistics().attempts, 0U) << "it is still open";
  group.runnable(1, forward(2));
  EXPECT_EQ(group.poll(1), forward(2));
  EXPECT_EQ(group.poll(0), forward(2));
}

TEST(FirstPickAgreement, OtherRoomIsNoNewsWhileThePickStays) {
  test::HandGroup group(Form::FirstPick, 2);
  group.begin();
  group.runnable(0, forward(2));
  group.runnable(1, forward(3));
  EXPECT_THAT(group.poll_all(mask_of(Pass::Forward)), testing::Each(std::nullopt));
  EXPECT_THAT(group.poll_all(kAllPasses), testing::Each(std::nullopt));
  EXPECT_EQ(group.agreements[0]->statistics().deferrals, 1U);
}

}  // namespace
}  // namespace sluice::agree
