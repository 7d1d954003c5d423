#include "sluice/inbox.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "sluice/error.hpp"

namespace sluice {
namespace {

/// The middle stage of three: edge 0 ends here, edge 1 starts here. Iteration 7 has begun.
class InboxTest : public testing::Test {
 protected:
  InboxTest() { inbox.begin(7); }

  static Offer offer(std::uint64_t iteration, Microbatch microbatch, EdgeId edge = 0,
                     Direction direction = Direction::Activation) {
    return {{iteration, microbatch, edge, direction}, 0, 0, {}};
  }
  std::string refusal(const Offer& bad) {
    try {
      (void)inbox.file(bad);
    } catch (const ProtocolError& error) {
      return error.what();
    }
    return "accepted";
  }

  const Pipeline pipeline = Pipeline::chain(3, 4);
  Inbox inbox{pipeline, 1, 9};
};

TEST_F(InboxTest, FilesByEdgeAndMicrobatchInAnyOrder) {
  EXPECT_TRUE(inbox.file(offer(7, 3)));
  EXPECT_TRUE(inbox.file(offer(7, 0)));
  EXPECT_TRUE(inbox.offered(0, 3));
  EXPECT_FALSE(inbox.offered(0, 1));
  EXPECT_EQ(inbox.offer(0, 3).id.microbatch, 3U);
  inbox.accepted(offer(7, 3).id);
  EXPECT_FALSE(inbox.offered(0, 3));
  inbox.arrived(offer(7, 3).id);
  EXPECT_TRUE(inbox.has_arrived(0, Direction::Activation, 3));
}

TEST_F(InboxTest, MessagesOfTheNextIterationAreHeld) {
  EXPECT_FALSE(inbox.file(offer(8, 0)));
  ASSERT_EQ(inbox.held().size(), 1U);
  inbox.end();
  inbox.begin(8);
  EXPECT_TRUE(inbox.file(inbox.held()[0]));
  inbox.clear_held();
  EXPECT_TRUE(inbox.offered(0, 0));
}

TEST_F(InboxTest, AfterTheEndMessagesBelongToTheNextIteration) {
  inbox.end();
  EXPECT_FALSE(inbox.file(offer(8, 0)));
  EXPECT_EQ(refusal(offer(7, 0)),
            "rank 9: activation of edge 0, microbatch 0, iteration 7 is of an impossible iteration");
}

TEST_F(InboxTest, TwoIterationsAheadIsRefused) {
  EXPECT_EQ(refusal(offer(9, 0)),
            "rank 9: activation of edge 0, microbatch 0, iteration 9 is of an impossible iteration");
  EXPECT_EQ(refusal(offer(6, 0)),
            "rank 9: activation of edge 0, microbatch 0, iteration 6 is of an impossible iteration");
}

TEST_F(InboxTest, ADuplicateIsRefusedWhateverBecameOfTheFirst) {
  const std::string twice = "rank 9: activation of edge 0, microbatch 2, iteration 7 came twice";
  (void)inbox.file(offer(7, 2));
  EXPECT_EQ(refusal(offer(7, 2)), twice);
  inbox.accepted(offer(7, 2).id);
  EXPECT_EQ(refusal(offer(7, 2)), twice);
  inbox.arrived(offer(7, 2).id);
  EXPECT_EQ(refusal(offer(7, 2)), twice);
}

TEST_F(InboxTest, ADuplicateAmongTheHeldIsRefused) {
  (void)inbox.file(offer(8, 2));
  EXPECT_EQ(refusal(offer(8, 2)), "rank 9: activation of edge 0, microbatch 2, iteration 8 came twice");
}

TEST_F(InboxTest, AnEdgeWithoutAnEndHereIsRefused) {
  EXPECT_EQ(refusal(offer(7, 0, 1)),
            "rank 9: activation of edge 1, microbatch 0, iteration 7 has no end on this rank");
  EXPECT_EQ(refusal(offer(7, 0, 5)),
            "rank 9: activation of edge 5, microbatch 0, iteration 7 has no end on this rank");
  EXPECT_EQ(refusal(offer(7, 0, 0, Direction::Gradient)),
            "rank 9: gradient of edge 0, microbatch 0, iteration 7 has no end on this rank");
}

TEST_F(InboxTest, AMicrobatchOutOfRangeIsRefused) {
  EXPECT_EQ(refusal(offer(7, 4)),
            "rank 9: activation of edge 0, microbatch 4, iteration 7 is of a microbatch that does not exist");
}

TEST_F(InboxTest, AGradientOfTheNextIterationIsRefused) {
  EXPECT_EQ(refusal(offer(8, 0, 1, Direction::Gradient)),
            "rank 9: gradient of edge 1, microbatch 0, iteration 8 came before its forward ran");
}

TEST_F(InboxTest, AnArrivalThatWasNotAcceptedIsRefused) {
  (void)inbox.file(offer(7, 0));
  EXPECT_THROW(inbox.arrived(offer(7, 0).id), ProtocolError);
  inbox.accepted(offer(7, 0).id);
  EXPECT_THROW(inbox.arrived(offer(8, 0).id), ProtocolError);
  inbox.arrived(offer(7, 0).id);
  EXPECT_THROW(inbox.arrived(offer(7, 0).id), ProtocolError);
}

TEST_F(InboxTest, HeldMessagesOfAnotherIterationStopTheNextFromBeginning) {
  Inbox fresh(pipeline, 1, 9);
  EXPECT_FALSE(fresh.file(offer(5, 0))) << "before the first iteration any may come";
  EXPECT_THROW(fresh.begin(6), ProtocolError);
}

}  // namespace
}  // namespace sluice
