#include "sluice/nccl/put_transport.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <vector>

#include "put_steps.hpp"

namespace sluice::nccl {
namespace {

using namespace std::chrono_literals;
using test::PutRank;
using test::PutThreads;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(PutTransportTest, ThreadsExchangeMessagesOfChangingShapes) {
  exchange(Pipeline::chain(3, 6), std::vector<test::DeviceSlots::Size>(3, {6, 2, 40}), 15);
}

TEST_F(PutTransportTest, StagesMayHaveDifferentNumbersOfSlots) {
  exchange(Pipeline::chain(3, 6), {{12, 1, 20}, {4, 1, 20}, {2, 1, 20}}, 10);
}

TEST_F(PutTransportTest, ThreadsExchangeMessagesBetweenChunksOfOneStageToo) {
  exchange(Pipeline::v_shape(2, 4), std::vector<test::DeviceSlots::Size>(2, {6, 1, 16}), 20);
}

TEST_F(PutTransportTest, DelaysOfTheDeviceChangeNothing) {
  if (fakecuda_delay_us == nullptr) GTEST_SKIP() << "needs the fake device";
  fakecuda_delay_us(200);
  exchange(Pipeline::interleaved(2, 2, 4), std::vector<test::DeviceSlots::Size>(2, {4, 2, 30}), 4);
}

/// More at a time than the ring of headers has entries, and often enough for it to come round.
TEST_F(PutTransportTest, MoreMessagesMayBeAcceptedThanTheRingHolds) {
  constexpr Microbatch kMicrobatches = 20;
  const Pipeline pipeline = Pipeline::chain(2, kMicrobatches);
  PutThreads ranks(pipeline, {{kMicrobatches, 1, 4}, {kMicrobatches, 1, 4}});
  for (std::uint64_t iteration = 0; iteration < 3; ++iteration) {
    for (Microbatch m = 0; m < kMicrobatches; ++m) {
      const MessageId id{iteration, m, 0, Direction::Activation};
      ranks.rank(0).put(id, m, {{static_cast<double>(iteration * 100 + m)}});
      ranks[0].send(id, m);
    }
    for (Microbatch m = 0; m < kMicrobatches; ++m) {
      const Offer offer = next_offer(ranks[1]);
      ranks[1].accept(offer, offer.id.microbatch);
    }
    std::size_t done = 0;
    for (Microbatch m = 0; m < kMicrobatches; ++m) {
      const auto until = std::chrono::steady_clock::now() + 20s;
      Arrival arrival;
      while (!ranks[1].poll(arrival)) {
        ASSERT_LT(std::chrono::steady_clock::now(), until);
        SendDone item;
        while (ranks[0].poll(item)) ++done;
      }
      EXPECT_EQ(ranks.rank(1).get(arrival.id, arrival.slot),
                (PutRank::Payload{{static_cast<double>(iteration * 100 + arrival.id.microbatch)}}));
    }
    for (; done < kMicrobatches; ++done) static_cast<void>(await<SendDone>(ranks[0], ranks[1]));
  }
}

TEST_F(PutTransportTest, AnOfferNamesShapesAndBytesAndTheSlotTakesThem) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  PutThreads ranks(pipeline, {{2, 2, 8}, {2, 2, 8}});
  ranks.rank(0).put(activation(1), 0, {{1, 2, 3}, {}});
  ranks[0].send(activation(1), 0);
  const Offer offer = next_offer(ranks[1]);
  EXPECT_EQ(offer.bytes, 24U);
  ASSERT_EQ(offer.shapes.size(), 2U);
  EXPECT_EQ(offer.shapes[0], test::vector_shape(3));
  EXPECT_EQ(offer.shapes[1], test::vector_shape(0));
  ranks[1].accept(offer, 1);
  EXPECT_EQ(ranks.rank(1).slots().at(0, 1).inputs[0][0].shape, test::vector_shape(3));
  EXPECT_EQ(ranks.rank(1).slots().at(0, 0).inputs[0][0].shape, test::vector_shape(8));
  const auto arrival = await<Arrival>(ranks[1], ranks[0]);
  EXPECT_EQ(ranks.rank(1).get(arrival.id, 1), (PutRank::Payload{{1, 2, 3}, {}}));
}

TEST_F(PutTransportTest, AMessageOfNoBytesArrivesToo) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  PutThreads ranks(pipeline, {{2, 2, 8}, {2, 2, 8}});
  ranks.rank(0).put(activation(1), 0, {{}, {}});
  ranks[0].send(activation(1), 0);
  const Offer offer = next_offer(ranks[1]);
  EXPECT_EQ(offer.bytes, 0U);
  ranks[1].accept(offer, 1);
  EXPECT_EQ(await<Arrival>(ranks[1], ranks[0]).id, activation(1));
}

TEST_F(PutTransportTest, RefusesAMessageThatDoesNotFitItsSlot) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  PutThreads ranks(pipeline, {{2, 1, 8}, {2, 1, 4}});
  ranks.rank(0).put(activation(1), 0, {{1, 2, 3, 4, 5}});
  ranks[0].send(activation(1), 0);
  EXPECT_THAT(error_of_polling(ranks[1]),
              AllOf(HasSubstr("rank 1"), HasSubstr("rank 0"), HasSubstr("activation of edge 0, microbatch 1"),
                    HasSubstr("float64[5]"), HasSubstr("32 bytes")));
}

TEST_F(PutTransportTest, RefusesToSendMoreThanASlotHolds) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  PutThreads ranks(pipeline, {{2, 1, 4}, {2, 1, 4}});
  ranks.rank(1).slots().at(0, 1).input_grads[0][0].shape = test::vector_shape(5);
  EXPECT_THAT(
      error_of([&] { ranks[1].send(gradient(0), 1); }),
      AllOf(HasSubstr("gradient of edge 0, microbatch 0"), HasSubstr("float64[5]"), HasSubstr("32 bytes")));
}

TEST_F(PutTransportTest, RefusesMoreMessagesThanTwoIterationsHave) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  PutThreads ranks(pipeline, {{2, 1, 4}, {2, 1, 4}});
  for (int i = 0; i < 4; ++i) ranks[0].send(activation(0), 0);
  EXPECT_THAT(error_of([&] { ranks[0].send(activation(0), 0); }), HasSubstr("more messages in flight"));
}

TEST_F(PutTransportTest, LooksAgainWhileAPutIsUnderWayAndNowAndThenBefore) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  PutThreads ranks(pipeline, {{2, 1, 4}, {2, 1, 4}});
  EXPECT_EQ(ranks[0].next_deadline(), kNever);
  ranks[0].send(activation(0), 0);
  EXPECT_NE(ranks[0].next_deadline(), kNever);
  EXPECT_NE(ranks[0].next_deadline(), kAnyTime);
  ranks[1].accept(next_offer(ranks[1]), 0);
  EXPECT_EQ(ranks[1].next_deadline(), kAnyTime);
  static_cast<void>(await<Arrival>(ranks[1], ranks[0]));
  EXPECT_EQ(ranks[1].next_deadline(), kNever);
  static_cast<void>(await<SendDone>(ranks[0], ranks[1]));
  EXPECT_EQ(ranks[0].next_deadline(), kNever);
}

TEST(ConnectionsWarning, SaysWhatToDoIfThereIsOneConnection) {
  ASSERT_EQ(setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1), 0);
  EXPECT_THAT(connections_warning().value_or(""),
              AllOf(HasSubstr("CUDA_DEVICE_MAX_CONNECTIONS=1"), HasSubstr("unset it")));
  ASSERT_EQ(setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", 1), 0);
  EXPECT_FALSE(connections_warning().has_value());
  ASSERT_EQ(unsetenv("CUDA_DEVICE_MAX_CONNECTIONS"), 0);
  EXPECT_FALSE(connections_warning().has_value());
}

}  // namespace
}  // namespace sluice::nccl
