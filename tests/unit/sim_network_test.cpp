#include "sluice/sim/sim_network.hpp"

#include <gtest/gtest.h>

namespace sluice::sim {
namespace {

class SimNetworkTest : public testing::Test {
 protected:
  static MessageId activation(Microbatch microbatch, EdgeId edge = 0) {
    return {0, microbatch, edge, Direction::Activation};
  }
  const Pipeline pipeline = Pipeline::interleaved(2, 2, 8);
  VirtualClock clock;
  Timetable timetable;
  SimNetwork network{pipeline, clock, timetable,
                     [](const Transit& transit) { return Duration{100 - 10 * transit.id.microbatch}; }};
  Transport& sender = network.endpoint(0);
  Transport& receiver = network.endpoint(1);
};

TEST_F(SimNetworkTest, AMessageIsNoticedAfterItsDelayInAnyOrder) {
  sender.send(activation(0), 4);
  sender.send(activation(5), 6);
  EXPECT_EQ(receiver.next_deadline(), Time{50});
  EXPECT_EQ(timetable.next_time(), Time{50});
  Offer offer;
  EXPECT_FALSE(receiver.poll(offer));
  clock.advance_to(Time{100});
  ASSERT_TRUE(receiver.poll(offer));
  EXPECT_EQ(offer.id, activation(5));
  ASSERT_TRUE(receiver.poll(offer));
  EXPECT_EQ(offer.id, activation(0));
  EXPECT_EQ(receiver.next_deadline(), kNever);
}

TEST_F(SimNetworkTest, TheSenderKeepsItsSlotUntilTheMessageIsAccepted) {
  sender.send(activation(3), 4);
  clock.advance_to(Time{100});
  Offer offer;
  ASSERT_TRUE(receiver.poll(offer));
  SendDone sent;
  EXPECT_FALSE(sender.poll(sent));
  receiver.accept(offer, 2);
  ASSERT_TRUE(sender.poll(sent));
  EXPECT_EQ(sent.slot, 4U);
  EXPECT_EQ(sent.id, activation(3));
  Arrival arrival;
  ASSERT_TRUE(receiver.poll(arrival));
  EXPECT_EQ(arrival.slot, 2U);
}

TEST_F(SimNetworkTest, GradientsTravelAgainstTheEdge) {
  receiver.send({0, 7, 0, Direction::Gradient}, 1);
  clock.advance_to(Time{30});
  Offer offer;
  EXPECT_TRUE(sender.poll(offer));
}

TEST(SimNetwork, WithinAStageThereIsNoDelay) {
  const Pipeline pipeline = Pipeline::interleaved(1, 2, 1);
  const VirtualClock clock;
  Timetable timetable;
  SimNetwork network(pipeline, clock, timetable, [](const Transit&) { return Duration{50}; });
  network.endpoint(0).send({0, 0, 0, Direction::Activation}, 0);
  Offer offer;
  EXPECT_TRUE(network.endpoint(0).poll(offer));
}

}  // namespace
}  // namespace sluice::sim
