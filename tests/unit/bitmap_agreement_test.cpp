#include "sluice/agree/bitmap_agreement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hand_group.hpp"
#include "tasks.hpp"

namespace sluice::agree {
namespace {

using test::backward;
using test::forward;

TEST(BitmapAgreement, DecidesTheBestThatAllHaveAtTheFirstAttempt) {
  test::HandGroup group(Form::Bitmap, 3);
  group.begin();
  group.runnable(0, forward(2));
  group.runnable(1, backward(1));
  group.runnable(forward(4));
  group.runnable(forward(5));
  EXPECT_THAT(group.poll_all(), testing::Each(std::optional(forward(4))));
  const AgreementStatistics statistics = group.agreements[2]->statistics();
  EXPECT_EQ(statistics.deferrals, 0U);
  EXPECT_EQ(statistics.picks_differed, 1U);
}

TEST(BitmapAgreement, DecidesWhatAllHaveRoomFor) {
  test::HandGroup group(Form::Bitmap, 2);
  group.begin();
  group.runnable(forward(4));
  group.runnable(backward(4));
  EXPECT_EQ(group.poll(0, mask_of(Pass::Backward)), std::nullopt);
  EXPECT_EQ(group.poll(1, mask_of(Pass::Forward)), std::nullopt);
  EXPECT_EQ(group.poll(0, mask_of(Pass::Backward)), std::nullopt);
  EXPECT_EQ(group.agreements[0]->statistics().deferrals, 1U);
  EXPECT_THAT(group.poll_all(), testing::Each(std::optional(backward(4)))) << "more room is news";
}

TEST(BitmapAgreement, AMemberWithNothingJoins) {
  test::HandGroup group(Form::Bitmap, 2);
  group.begin();
  group.runnable(0, forward(2));
  EXPECT_THAT(group.poll_all(), testing::Each(std::nullopt));
  EXPECT_EQ(group.agreements[0]->statistics().deferrals, 1U);
  group.runnable(1, forward(2));
  EXPECT_THAT(group.poll_all(), testing::Each(std::optional(forward(2))));
}

}  // namespace
}  // namespace sluice::agree
