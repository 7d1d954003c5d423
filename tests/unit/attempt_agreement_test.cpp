#include "sluice/agree/attempt_agreement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hand_group.hpp"
#include "tasks.hpp"

namespace sluice::agree {
namespace {

using namespace std::chrono_literals;
using test::backward;
using test::forward;
using test::HandGroup;

constexpr auto kNothing = std::nullopt;

/// What the two forms without a leader have in common.
struct AttemptForms : testing::TestWithParam<Form> {
  void SetUp() override { group.begin(); }
  [[nodiscard]] AgreementStatistics statistics(std::uint32_t member = 0) const {
    return group.agreements[member]->statistics();
  }
  HandGroup group{GetParam(), 3};
};

INSTANTIATE_TEST_SUITE_P(Forms, AttemptForms, testing::Values(Form::FirstPick, Form::Bitmap),
                         [](const auto& form) {
                           return form.param == Form::FirstPick ? "FirstPick" : "Bitmap";
                         });

TEST_P(AttemptForms, DecideWhenEveryMemberHasContributed) {
  group.runnable(forward(3));
  EXPECT_EQ(group.poll(0), kNothing);
  EXPECT_EQ(group.poll(1), kNothing);
  EXPECT_EQ(group.poll(2), forward(3));
  EXPECT_EQ(group.poll(0), forward(3));
  EXPECT_EQ(group.poll(1), forward(3));
  EXPECT_EQ(statistics().attempts, 1U);
}

TEST_P(AttemptForms, NobodyOpensAnAttemptWithNothingToRun) {
  EXPECT_THAT(group.poll_all(), testing::Each(kNothing));
  EXPECT_EQ(statistics().attempts, 0U);
}

/// Member 2's own tasks never change after its first contribution.
TEST_P(AttemptForms, AMemberJoinsChangedOrNot) {
  group.runnable(2, forward(3));
  group.runnable(0, forward(1));
  group.runnable(1, forward(2));
  EXPECT_THAT(group.poll_all(), testing::Each(kNothing));
  EXPECT_EQ(statistics().deferrals, 1U);
  EXPECT_THAT(group.poll_all(), testing::Each(kNothing));
  EXPECT_EQ(statistics().deferrals, 1U) << "nothing has changed";
  for (std::uint32_t member = 0; member < 2; ++member) {
    group.runnable(member, forward(member + 1), false);
    group.runnable(member, forward(3));
  }
  EXPECT_THAT(group.poll_all(), testing::Each(std::optional(forward(3))));
  EXPECT_EQ(statistics(2).decisions, 1U);
}

TEST_P(AttemptForms, WhatChangesWhileAnAttemptIsOpenIsTriedNext) {
  group.runnable(0, forward(3));
  group.runnable(1, forward(3));
  group.runnable(2, forward(1));
  EXPECT_EQ(group.poll(0), kNothing);
  EXPECT_EQ(group.poll(2), kNothing);
  group.runnable(2, forward(1), false);
  group.runnable(2, forward(3));
  EXPECT_EQ(group.poll(1), kNothing) << "member 2 contributed without it";
  EXPECT_THAT(group.poll_all(), testing::Each(std::optional(forward(3))));
  EXPECT_EQ(statistics().deferrals, 1U);
}

TEST_P(AttemptForms, ADecisionStandsAlthoughTheTaskWasWithdrawnMeanwhile) {
  group.runnable(forward(2));
  EXPECT_EQ(group.poll(0), kNothing);
  group.runnable(0, forward(2), false);
  group.runnable(0, forward(1));
  EXPECT_EQ(group.poll(1), kNothing);
  EXPECT_EQ(group.poll(2), forward(2));
  EXPECT_EQ(group.poll(0), forward(2));
}

TEST_P(AttemptForms, AContributionToTheNextIterationIsHeld) {
  group.begin(1, 1);
  group.runnable(1, forward(2));
  EXPECT_EQ(group.poll(1), kNothing);
  EXPECT_EQ(group.poll(0), kNothing);
  EXPECT_EQ(statistics().attempts, 0U);
  for (const std::uint32_t member : {0U, 2U}) {
    group.begin(member, 1);
    group.runnable(member, forward(2));
  }
  EXPECT_THAT(group.poll_all(), testing::Each(std::optional(forward(2))));
}

TEST_P(AttemptForms, IterationsFollowEachOther) {
  for (std::uint64_t iteration = 1; iteration < 6; ++iteration) {
    group.begin(iteration);
    group.runnable(forward(3));
    group.runnable(backward(2));
    EXPECT_THAT(group.poll_all(), testing::Each(std::optional(backward(2))));
    EXPECT_THAT(group.poll_all(), testing::Each(std::optional(forward(3))));
    EXPECT_THAT(group.poll_all(), testing::Each(kNothing));
  }
}

/// The last member comes in at 30; member 0 hears of it at 42.
TEST_P(AttemptForms, MeasureFromTheLastContributionToTheDecision) {
  group.clock.advance_to(10ns);
  group.runnable(forward(2));
  EXPECT_EQ(group.poll(0), kNothing);
  EXPECT_EQ(group.poll(1), kNothing);
  group.clock.advance_to(30ns);
  EXPECT_EQ(group.poll(2), forward(2));
  group.clock.advance_to(42ns);
  EXPECT_EQ(group.poll(0), forward(2));
  EXPECT_EQ(statistics(2).idle, 0ns);
  EXPECT_EQ(statistics(0).idle, 12ns);
}

}  // namespace
}  // namespace sluice::agree
