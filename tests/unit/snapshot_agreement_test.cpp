#include "sluice/agree/snapshot_agreement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hand_group.hpp"
#include "tasks.hpp"

/// When a member opens an attempt, and since when its contribution stands: by the bitmap's.
namespace sluice::agree {
namespace {

using namespace std::chrono_literals;
using test::backward;
using test::forward;

constexpr auto kNothing = std::nullopt;

class Snapshots : public testing::Test {
 protected:
  void SetUp() override { group.begin(); }
  [[nodiscard]] std::uint64_t attempts() const { return group.agreements[0]->statistics().attempts; }

  test::HandGroup group{Form::Bitmap, 2};
};

TEST_F(Snapshots, AMemberWithoutAPickOpensNothing) {
  group.runnable(0, forward(1));
  EXPECT_THAT(group.poll_all(mask_of(Pass::Backward)), testing::Each(kNothing));
  EXPECT_EQ(attempts(), 0U);
}

TEST_F(Snapshots, WhatHasChangedOpensTheNextAttempt) {
  group.runnable(0, forward(1));
  EXPECT_THAT(group.poll_all(), testing::Each(kNothing));
  EXPECT_EQ(attempts(), 1U);
  EXPECT_THAT(group.poll_all(), testing::Each(kNothing));
  EXPECT_EQ(attempts(), 1U);
  group.runnable(0, forward(2));
  EXPECT_THAT(group.poll_all(), testing::Each(kNothing));
  EXPECT_EQ(attempts(), 2U);
}

TEST_F(Snapshots, AnotherAskOpensTheNextAttempt) {
  group.runnable(0, forward(1));
  EXPECT_THAT(group.poll_all(mask_of(Pass::Forward)), testing::Each(kNothing));
  EXPECT_EQ(attempts(), 1U);
  EXPECT_THAT(group.poll_all(), testing::Each(kNothing));
  EXPECT_EQ(attempts(), 2U);
}

TEST_F(Snapshots, TheDeviceIsIdleForNothingSinceTheLastChange) {
  group.agreements[0]->device_idle(0ns);
  group.runnable(0, forward(1));
  EXPECT_EQ(group.poll(0), kNothing);
  group.clock.advance_to(10us);
  group.runnable(1, forward(1));
  EXPECT_EQ(group.poll(1), forward(1));
  group.clock.advance_to(14us);
  EXPECT_EQ(group.poll(0), forward(1));
  EXPECT_EQ(group.agreements[0]->statistics().idle, 4us);
}

TEST_F(Snapshots, PicksDifferWhereAMemberWouldHaveRunAnother) {
  group.runnable(forward(3));
  EXPECT_THAT(group.poll_all(), testing::Each(std::optional(forward(3))));
  EXPECT_EQ(group.agreements[0]->statistics().picks_differed, 0U);
  group.runnable(1, backward(3));
  group.runnable(forward(4));
  EXPECT_THAT(group.poll_all(), testing::Each(std::optional(forward(4))));
  EXPECT_EQ(group.agreements[0]->statistics().picks_differed, 1U);
}

}  // namespace
}  // namespace sluice::agree
