#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "../counting_allocator.hpp"
#include "cuda/device_rank.hpp"
#include "rank_threads.hpp"
#include "sluice/cuda/device.hpp"

/// Nothing that the transport between devices does for a message allocates. What the runtime does to put
/// copies on a stream, when a message is accepted, is left out.
namespace sluice {
namespace {

constexpr Microbatch kMicrobatches = 50;

TEST(IpcHotPath, MessagesAllocateNothing) {
  const Pipeline pipeline = Pipeline::chain(2, kMicrobatches);
  cuda::use_device(0);
  std::vector<std::unique_ptr<test::DeviceRank>> ranks(2);
  test::on_each_rank(2, [&](process::Bootstrap& bootstrap) {
    cuda::use_device(0);
    ranks[bootstrap.rank()] =
        std::make_unique<test::DeviceRank>(pipeline, static_cast<StageId>(bootstrap.rank()),
                                           test::DeviceRank::Size{1, 3, 8}, test::all_gather_of(bootstrap));
  });
  cuda::IpcTransport& sender = ranks[0]->transport();
  cuda::IpcTransport& receiver = ranks[1]->transport();
  for (Microbatch m = 0; m < kMicrobatches; ++m) {
    Offer offer;
    Arrival arrival;
    SendDone done;
    {
      const test::CountedAllocations counted;
      sender.send({0, m, 0, Direction::Activation}, 0);
      EXPECT_TRUE(receiver.poll(offer));
      EXPECT_EQ(counted.count(), 0U);
    }
    receiver.accept(offer, 0);
    cuda::check(cudaDeviceSynchronize(), "waiting for a pull");
    const test::CountedAllocations counted;
    EXPECT_EQ(receiver.next_deadline(), kAnyTime);
    EXPECT_TRUE(receiver.poll(arrival));
    EXPECT_TRUE(sender.poll(done));
    EXPECT_FALSE(sender.poll(offer));
    EXPECT_EQ(counted.count(), 0U);
  }
  for (const auto& rank : ranks) rank->transport().abandon();
}

}  // namespace
}  // namespace sluice
