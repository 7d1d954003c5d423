#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <thread>

#include "../counting_allocator.hpp"
#include "nccl/put_threads.hpp"

/// Nothing that the transport that puts does for a message allocates. What NCCL and the runtime do to put
/// operations on a stream is left out: that is in polls which do not find anything yet.
namespace sluice {
namespace {

constexpr Microbatch kMicrobatches = 50;
constexpr auto kLongest = std::chrono::seconds(60);

/// What the poll that found something has allocated.
template <typename Item>
std::uint64_t allocations_of_finding(Transport& transport, Transport& other) {
  const auto until = std::chrono::steady_clock::now() + kLongest;
  while (std::chrono::steady_clock::now() < until) {
    {
      Item item;
      const test::CountedAllocations counted;
      if (transport.poll(item)) return counted.count();
    }
    // It has to put, too.
    Offer offer;
    EXPECT_FALSE(other.poll(offer));
    std::this_thread::yield();
  }
  ADD_FAILURE() << "nothing was found";
  return 0;
}

TEST(PutHotPath, MessagesAllocateNothing) {
  const Pipeline pipeline = Pipeline::chain(2, kMicrobatches);
  test::PutThreads ranks(pipeline, {{1, 3, 8}, {1, 3, 8}});
  ASSERT_EQ(ranks.error(0) + ranks.error(1), "");
  Transport& sender = ranks[0];
  Transport& receiver = ranks[1];
  for (Microbatch m = 0; m < kMicrobatches; ++m) {
    Offer offer;
    {
      const test::CountedAllocations counted;
      sender.send({0, m, 0, Direction::Activation}, 0);
      EXPECT_FALSE(sender.poll(offer));
      EXPECT_TRUE(receiver.poll(offer));
      receiver.accept(offer, 0);
      EXPECT_EQ(receiver.next_deadline(), kAnyTime);
      EXPECT_EQ(counted.count(), 0U);
    }
    EXPECT_EQ(allocations_of_finding<Arrival>(receiver, sender), 0U);
    EXPECT_EQ(allocations_of_finding<SendDone>(sender, receiver), 0U);
    const test::CountedAllocations counted;
    EXPECT_FALSE(sender.poll(offer));
    EXPECT_FALSE(receiver.poll(offer));
    EXPECT_EQ(counted.count(), 0U);
  }
}

TEST(PutHotPath, MessagesBetweenChunksOfOneRankAllocateNothing) {
  const Pipeline pipeline = Pipeline::v_shape(1, kMicrobatches);
  test::PutThreads ranks(pipeline, {{2, 3, 8}});
  ASSERT_EQ(ranks.error(0), "");
  Transport& transport = ranks[0];
  for (Microbatch m = 0; m < kMicrobatches; ++m) {
    Offer offer;
    {
      const test::CountedAllocations counted;
      transport.send({0, m, 0, Direction::Activation}, 0);
      EXPECT_TRUE(transport.poll(offer));
      EXPECT_EQ(counted.count(), 0U);
    }
    transport.accept(offer, 1);
    EXPECT_EQ(allocations_of_finding<Arrival>(transport, transport), 0U);
    EXPECT_EQ(allocations_of_finding<SendDone>(transport, transport), 0U);
  }
}

}  // namespace
}  // namespace sluice
