#include "sluice/sim/sim_channel.hpp"

#include <gtest/gtest.h>

namespace sluice::sim {
namespace {

using namespace std::chrono_literals;

struct SimChannelsTest : testing::Test {
  void send(std::uint32_t from, std::uint32_t to) {
    const std::byte byte{1};
    channels.channel(from).send(to, {&byte, 1});
  }
  bool arrived(std::uint32_t member) {
    std::span<const std::byte> message;
    return channels.channel(member).poll(sender, message);
  }

  VirtualClock clock;
  Timetable timetable;
  Duration delay = 5ns;
  SimChannels channels{3, 10, clock, timetable, [this](std::uint32_t, std::uint32_t) { return delay; }};
  std::uint32_t sender = 99;
};

TEST_F(SimChannelsTest, AMessageTakesItsTimeAndRingsItsReceiver) {
  send(0, 2);
  EXPECT_EQ(timetable.next_time(), 5ns);
  EXPECT_EQ(timetable.pop(), 12U) << "the group's third rank";
  clock.advance_to(4ns);
  EXPECT_FALSE(arrived(2));
  clock.advance_to(5ns);
  EXPECT_TRUE(arrived(2));
  EXPECT_EQ(sender, 0U);
  EXPECT_FALSE(arrived(2));
  EXPECT_EQ(channels.sent(), 1U);
}

TEST_F(SimChannelsTest, NoneOvertakesOneOfTheSameSender) {
  delay = 50ns;
  send(0, 2);
  delay = 1ns;
  send(0, 2);
  send(1, 2);
  clock.advance_to(1ns);
  EXPECT_TRUE(arrived(2));
  EXPECT_EQ(sender, 1U);
  EXPECT_FALSE(arrived(2));
  clock.advance_to(50ns);
  EXPECT_TRUE(arrived(2));
  EXPECT_TRUE(arrived(2));
}

}  // namespace
}  // namespace sluice::sim
