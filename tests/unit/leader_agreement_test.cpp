#include "sluice/agree/leader_agreement.hpp"

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

struct Leader : testing::Test {
  Leader() { group.begin(); }
  HandGroup group{Form::Leader, 2};
};

TEST_F(Leader, DecidesWhenEveryMemberHasAsked) {
  group.runnable(forward(3));
  EXPECT_EQ(group.poll(0), kNothing);
  EXPECT_EQ(group.poll(0), kNothing) << "member 1 has not asked";
  EXPECT_EQ(group.poll(1), kNothing);
  EXPECT_EQ(group.poll(0), forward(3));
  EXPECT_EQ(group.poll(1), forward(3));
  EXPECT_EQ(group.poll(1), kNothing);
}

TEST_F(Leader, DecidesTheBestThatAllHave) {
  group.runnable(0, forward(2));
  group.runnable(forward(4));
  group.runnable(1, forward(1));
  EXPECT_THAT(group.poll_all(), testing::Each(std::optional(forward(4))));
  EXPECT_EQ(group.agreements[1]->statistics().picks_differed, 1U);
}

TEST_F(Leader, LooksAgainWhenAMembersTasksChange) {
  group.runnable(0, forward(2));
  group.runnable(1, forward(4));
  EXPECT_THAT(group.poll_all(), testing::Each(kNothing));
  group.runnable(1, forward(2));
  EXPECT_EQ(group.poll(1), kNothing);
  EXPECT_EQ(group.poll(0), forward(2));
  EXPECT_EQ(group.poll(1), forward(2));
  EXPECT_EQ(group.agreements[0]->statistics().deferrals, 1U);
  EXPECT_EQ(group.agreements[1]->statistics().deferrals, 1U);
}

TEST_F(Leader, LooksAgainWhenAMembersLanesChange) {
  group.runnable(forward(2));
  group.runnable(1, backward(1));
  EXPECT_EQ(group.poll(0), kNothing);
  EXPECT_EQ(group.poll(1, mask_of(Pass::Backward)), kNothing);
  EXPECT_EQ(group.poll(0), kNothing) << "member 1 has no room for it";
  EXPECT_EQ(group.poll(1, kAllPasses), kNothing);
  EXPECT_EQ(group.poll(0), forward(2));
}

TEST_F(Leader, ADecisionStandsAlthoughTheTaskWasWithdrawnMeanwhile) {
  group.runnable(forward(2));
  EXPECT_EQ(group.poll(1), kNothing);
  EXPECT_EQ(group.poll(0), forward(2));
  group.runnable(1, forward(2), false);
  group.runnable(1, forward(5));
  EXPECT_EQ(group.poll(1), forward(2));
  group.runnable(0, forward(5));
  EXPECT_THAT(group.poll_all(), testing::Each(std::optional(forward(5))));
}

TEST_F(Leader, TellsMoreChangesThanAMessageHolds) {
  for (Microbatch m = 0; m < HandGroup::kMicrobatches; ++m) {
    group.runnable(forward(m));
    group.runnable(backward(m));
  }
  std::size_t decisions = 0;
  for (; group.poll_all()[1]; ++decisions) {
  }
  EXPECT_EQ(decisions, 2U * HandGroup::kMicrobatches);
}

TEST_F(Leader, HoldsWhatAMemberSaysOfTheNextIteration) {
  group.begin(1, 1);
  group.runnable(1, forward(3));
  group.runnable(1, forward(2));
  group.runnable(1, forward(3), false);
  EXPECT_EQ(group.poll(1), kNothing);
  group.runnable(0, forward(2));
  EXPECT_EQ(group.poll(0), kNothing) << "it is not of this iteration";
  group.begin(0, 1);
  group.runnable(0, forward(3));
  EXPECT_EQ(group.poll(0), kNothing);
  group.runnable(0, forward(2));
  EXPECT_EQ(group.poll(0), forward(2));
  EXPECT_EQ(group.poll(1), forward(2));
}

TEST_F(Leader, ForgetsWhatAMemberSaidBeforeItKnewOfTheLastDecision) {
  group.runnable(forward(2));
  EXPECT_EQ(group.poll(1), kNothing);
  EXPECT_EQ(group.poll(0), forward(2));
  // Out before the decision is fetched.
  group.runnable(1, forward(3));
  group.runnable(1, forward(2), false);
  std::vector<RunnableChange> flood(300, {forward(3), true});
  group.agreements[1]->announce(flood);
  EXPECT_EQ(group.poll(1), forward(2));
  group.begin(1);
  group.runnable(0, forward(3));
  group.runnable(1, forward(4));
  EXPECT_THAT(group.poll_all(), testing::Each(kNothing));
  group.runnable(0, forward(4));
  EXPECT_THAT(group.poll_all(), testing::Each(std::optional(forward(4))));
}

/// Member 1 asks at 10, the leader at 30; the decision is there at 45.
TEST_F(Leader, MeasuresFromTheLastAskToTheDecision) {
  group.runnable(forward(2));
  group.clock.advance_to(10ns);
  EXPECT_EQ(group.poll(1), kNothing);
  group.clock.advance_to(30ns);
  EXPECT_EQ(group.poll(0), forward(2));
  group.clock.advance_to(45ns);
  EXPECT_EQ(group.poll(1), forward(2));
  EXPECT_EQ(group.agreements[0]->statistics().idle, 0ns);
  EXPECT_EQ(group.agreements[1]->statistics().idle, 15ns);
}

/// The leader asks at 10, member 1 at 30; its ask is there at 37 and the decision at 45.
TEST_F(Leader, MeasuresTheWayOfTheAskToo) {
  group.runnable(forward(2));
  group.clock.advance_to(10ns);
  EXPECT_EQ(group.poll(0), kNothing);
  group.clock.advance_to(30ns);
  EXPECT_EQ(group.poll(1), kNothing);
  group.clock.advance_to(37ns);
  EXPECT_EQ(group.poll(0), forward(2));
  group.clock.advance_to(45ns);
  EXPECT_EQ(group.poll(1), forward(2));
  EXPECT_EQ(group.agreements[0]->statistics().idle, 7ns);
  EXPECT_EQ(group.agreements[1]->statistics().idle, 15ns);
}

TEST_F(Leader, AnAgreementWhileTheDeviceRunsCostsNoTime) {
  group.runnable(forward(2));
  group.runnable(forward(3));
  ASSERT_THAT(group.poll_all(), testing::Each(std::optional(forward(2))));
  group.clock.advance_to(10ns);
  EXPECT_EQ(group.poll(1), kNothing);
  EXPECT_EQ(group.poll(0), forward(3));
  group.clock.advance_to(40ns);
  group.agreements[1]->device_idle(35ns);
  EXPECT_EQ(group.poll(1), forward(3));
  EXPECT_EQ(group.agreements[0]->statistics().idle, 0ns);
  EXPECT_EQ(group.agreements[1]->statistics().idle, 5ns) << "since its device stood";
}

}  // namespace
}  // namespace sluice::agree
