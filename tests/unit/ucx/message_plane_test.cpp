#include "sluice/ucx/message_plane.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <semaphore>
#include <thread>

#include "plane_set.hpp"
#include "sluice/error.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/ucx/tensor_pool.hpp"
#include "typed_tensor.hpp"

namespace sluice::ucx {
namespace {

using ::testing::HasSubstr;

constexpr DLDataType kFloat = {kDLFloat, 32, 1};

MessageId activation(Microbatch microbatch, EdgeId edge = 0) {
  return {0, microbatch, edge, Direction::Activation};
}
MessageId gradient(Microbatch microbatch, EdgeId edge = 0) {
  return {0, microbatch, edge, Direction::Gradient};
}

/// Two ranks, of which the first sends activations to the second.
class TwoRanks : public ::testing::Test {
 protected:
  host::Payload& output(Slot slot) { return (*ranks_.buffers[0])[slot].outputs[0]; }
  host::Payload& input(Slot slot) { return (*ranks_.buffers[1])[slot].inputs[0]; }

  /// Sends what is in the output of the slot and takes it into the same slot of the other rank.
  void carry(const MessageId& id, Slot slot) {
    ranks_.transports[0]->send(id, slot);
    for (const Offer& offer : ranks_.all<Offer>(1)) ranks_.transports[1]->accept(offer, slot);
    ASSERT_EQ(ranks_.all<Arrival>(1).size(), 1U);
    ASSERT_EQ(ranks_.all<SendDone>(0).size(), 1U);
  }

  Pipeline pipeline_ = Pipeline::chain(2, 8);
  PlaneSet planes_{2};
  PipelineOnPlanes ranks_{planes_, pipeline_};
};

TEST_F(TwoRanks, KnowTheirNumbers) {
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(planes_.planes[rank]->rank(), rank);
    EXPECT_EQ(planes_.planes[rank]->ranks(), 2U);
  }
}

struct Content {
  DLDataType type;
  std::vector<std::int64_t> extents;
};

class Payloads : public TwoRanks, public ::testing::WithParamInterface<std::vector<Content>> {};

TEST_P(Payloads, ArriveAsTheyWereSent) {
  std::vector<std::vector<std::byte>> sent;
  std::vector<TensorShape> shapes;
  for (const Content& each : GetParam()) {
    output(3).push_back(typed_tensor(each.type, each.extents, static_cast<std::uint32_t>(sent.size())));
    sent.push_back(bytes_of_tensor(output(3).back()));
    shapes.push_back(host::shape_of(*output(3).back()));
  }
  ranks_.transports[0]->send(activation(1), 3);
  const std::vector<Offer> offers = ranks_.all<Offer>(1);
  ASSERT_EQ(offers.size(), 1U);
  EXPECT_EQ(offers[0].id, activation(1));
  EXPECT_EQ(std::vector(offers[0].shapes.begin(), offers[0].shapes.end()), shapes);
  std::uint64_t bytes = 0;
  for (const auto& each : sent) bytes += each.size();
  EXPECT_EQ(offers[0].bytes, bytes);
  EXPECT_TRUE(ranks_.all<SendDone>(0).empty());
  EXPECT_EQ(output(3).size(), sent.size());
  ranks_.transports[1]->accept(offers[0], 5);
  const std::vector<Arrival> arrivals = ranks_.all<Arrival>(1);
  ASSERT_EQ(arrivals.size(), 1U);
  EXPECT_EQ(arrivals[0].slot, 5U);
  ASSERT_EQ(input(5).size(), sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(host::shape_of(*input(5)[i]), shapes[i]);
    EXPECT_EQ(bytes_of_tensor(input(5)[i]), sent[i]);
  }
  EXPECT_EQ(ranks_.all<SendDone>(0).size(), 1U);
  EXPECT_TRUE(output(3).empty());
}

INSTANTIATE_TEST_SUITE_P(
    MessagePlane, Payloads,
    ::testing::Values(
        std::vector<Content>{}, std::vector<Content>{{kFloat, {2}}}, std::vector<Content>{{kFloat, {}}},
        std::vector<Content>{{{kDLInt, 8, 1}, {1}}}, std::vector<Content>{{{kDLFloat, 16, 1}, {3, 64, 97}}},
        std::vector<Content>{{{kDLBfloat, 16, 1}, {1 << 20}}, {{kDLInt, 64, 1}, {7, 5}}},
        std::vector<Content>{{kFloat, {0}}}, std::vector<Content>{{kFloat, {4, 0, 2}}, {kFloat, {0}}},
        std::vector<Content>{{kFloat, {4}}, {kFloat, {0}}, {{kDLUInt, 8, 1}, {3}}},
        std::vector<Content>{{{kDLUInt, 8, 1}, {17 << 20}}}, std::vector<Content>(20, {kFloat, {33, 3}}),
        std::vector<Content>{{{kDLUInt, 8, 1}, {9 << 20}}, {{kDLUInt, 8, 1}, {9 << 20}}}),
    [](const auto& tested) { return "Case" + std::to_string(tested.index); });

TEST_F(TwoRanks, MayChangeShapesFromMessageToMessage) {
  for (Microbatch m = 0; m < 8; ++m) {
    output(m).push_back(typed_tensor(kFloat, {m + 1, 100 - m}, m));
    const std::vector<std::byte> sent = bytes_of_tensor(output(m)[0]);
    carry(activation(m), m);
    EXPECT_EQ(bytes_of_tensor(input(m)[0]), sent);
  }
}

TEST_F(TwoRanks, GradientsComeBackAlongTheSameEdge) {
  (*ranks_.buffers[1])[2].input_grads[0].push_back(typed_tensor(kFloat, {10}, 1));
  const std::vector<std::byte> sent = bytes_of_tensor((*ranks_.buffers[1])[2].input_grads[0][0]);
  ranks_.transports[1]->send(gradient(2), 2);
  for (const Offer& offer : ranks_.all<Offer>(0)) ranks_.transports[0]->accept(offer, 4);
  ASSERT_EQ(ranks_.all<Arrival>(0).size(), 1U);
  EXPECT_EQ(bytes_of_tensor((*ranks_.buffers[0])[4].output_grads[0].at(0)), sent);
}

TEST_F(TwoRanks, ATensorMayStartBehindItsMemory) {
  output(0).push_back(typed_tensor(kFloat, {10}, 1));
  DLTensor& tensor = output(0)[0]->dl_tensor;
  tensor.byte_offset = 8;
  tensor.shape[0] = 8;
  const std::vector<std::byte> sent = bytes_of_tensor(output(0)[0]);
  carry(activation(0), 0);
  EXPECT_EQ(bytes_of_tensor(input(0)[0]), sent);
}

TEST_F(TwoRanks, StridesOfAContiguousTensorAreFine) {
  output(0).push_back(typed_tensor(kFloat, {3, 1, 4}, 1));
  std::int64_t strides[] = {4, 77, 1};
  output(0)[0]->dl_tensor.strides = strides;
  carry(activation(0), 0);
}

TEST_F(TwoRanks, RefuseATensorThatIsNotContiguous) {
  output(0).push_back(typed_tensor(kFloat, {3, 4}, 1));
  std::int64_t strides[] = {1, 3};
  output(0)[0]->dl_tensor.strides = strides;
  try {
    ranks_.transports[0]->send(activation(0), 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("float32[3, 4] is not contiguous"));
    EXPECT_THAT(error.what(), HasSubstr("to rank 1"));
  }
}

TEST_F(TwoRanks, RefuseADeviceThatUcxDoesNotKnow) {
  output(0).push_back(typed_tensor(kFloat, {3}, 1));
  output(0)[0]->dl_tensor.device = {kDLVulkan, 0};
  EXPECT_THROW(ranks_.transports[0]->send(activation(0), 0), Error);
}

TEST_F(TwoRanks, RefuseMoreTensorsThanAHeaderHolds) {
  for (int i = 0; i < 4000; ++i) output(0).push_back(typed_tensor(kFloat, {1, 1, 1}, 1));
  EXPECT_THROW(ranks_.transports[0]->send(activation(0), 0), Error);
}

TEST_F(TwoRanks, RefuseMoreMessagesThanTwoIterationsHave) {
  for (Slot slot = 0; slot < 16; ++slot) ranks_.transports[0]->send(activation(slot % 8), slot);
  EXPECT_THROW(ranks_.transports[0]->send(activation(0), 0), ProtocolError);
}

TEST_F(TwoRanks, UseReceivedMemoryAgain) {
  auto data = [&](Microbatch m) {
    output(m).push_back(typed_tensor(kFloat, {5000}, m));
    carry(activation(m), m);
    void* const memory = input(m)[0]->dl_tensor.data;
    // As a stage's worker does.
    std::thread([&] { input(m).clear(); }).join();
    return memory;
  };
  void* const first = data(0);
  for (Microbatch m = 1; m < 8; ++m) EXPECT_EQ(data(m), first);
}

TEST_F(TwoRanks, ReceivedTensorsOutliveThePlane) {
  output(0).push_back(typed_tensor(kFloat, {5000}, 9));
  const std::vector<std::byte> sent = bytes_of_tensor(output(0)[0]);
  carry(activation(0), 0);
  host::Payload kept = std::move(input(0));
  ranks_.transports.clear();
  planes_.planes[1]->abandon();
  planes_.planes[1].reset();
  EXPECT_EQ(bytes_of_tensor(kept[0]), sent);
}

TEST_F(TwoRanks, EndWithOffersThatNobodyAccepted) {
  for (Slot slot = 0; slot < 16; ++slot) {
    output(slot).push_back(typed_tensor(kFloat, {3000}, slot));
    ranks_.transports[0]->send(activation(slot % 8), slot);
  }
  EXPECT_EQ(ranks_.all<Offer>(1).size(), 16U);
  ranks_.transports[1].reset();
  planes_.settle();
  // The sender is told that its memory is free.
  EXPECT_EQ(ranks_.all<SendDone>(0).size(), 16U);
}

TEST_F(TwoRanks, EndWithMessagesUnderWay) {
  for (Slot slot = 0; slot < 8; ++slot) {
    output(slot).push_back(typed_tensor(kFloat, {300000}, slot));
    ranks_.transports[0]->send(activation(slot), slot);
  }
  const std::vector<Offer> offers = ranks_.all<Offer>(1);
  ASSERT_EQ(offers.size(), 8U);
  for (const Offer& offer : offers) ranks_.transports[1]->accept(offer, offer.id.microbatch);
  ranks_.transports.clear();
  ranks_.buffers.clear();
  planes_.settle();
}

TEST_F(TwoRanks, TheReceiverOfWhatIsUnderWayMayEndFirst) {
  output(0).push_back(typed_tensor(kFloat, {300000}, 1));
  ranks_.transports[0]->send(activation(0), 0);
  planes_.planes[1]->abandon();
  ranks_.transports[1].reset();
  planes_.planes[1].reset();
  ranks_.transports[0].reset();
  ranks_.buffers.clear();
  planes_.planes[0].reset();
}

TEST(MessagePlane, EndsInTimeWithoutItsPeers) {
  PlaneOptions options;
  options.closing = std::chrono::milliseconds(50);
  const Pipeline pipeline = Pipeline::chain(2, 4);
  PlaneSet planes(2, options);
  PipelineOnPlanes ranks(planes, pipeline);
  ranks.transports.clear();
  planes.planes[0].reset();
  EXPECT_EQ(planes.planes[1]->rank(), 1U);
}

TEST(MessagePlane, WaitsForThePeersThatItIsConnectedTo) {
  PlaneOptions options;
  options.closing = std::chrono::seconds(60);
  const Pipeline pipeline = Pipeline::chain(2, 4);
  test::on_each_rank(2, [&](process::Bootstrap& bootstrap) {
    const auto stage = static_cast<StageId>(bootstrap.rank());
    MessagePlane plane(bootstrap, options);
    host::SlotBuffers buffers(pipeline, stage, 4);
    const auto transport = plane.transport(1, pipeline, stage, {0, 1}, &buffers);
    if (stage == 0) {
      transport->send(activation(0), 0);
      SendDone done;
      while (!transport->poll(done)) {
      }
      return;
    }
    Offer offer;
    while (!transport->poll(offer)) {
    }
    // Rank 1 ends at once, but not before rank 0 has its word of this.
    transport->accept(offer, 0);
  });
}

TEST(MessagePlane, WhoSleepsGivesUpTheTurn) {
  const PlaneSet planes(2);
  MessagePlane& plane = *planes.planes[0];
  std::mutex turn;
  plane.share(&turn);
  for (Wake* wake : {&plane.wake(), &plane.second_wake()}) {
    std::binary_semaphore has_turn{0};
    bool told = false;
    bool late = false;
    std::thread sleeper([&] {
      const std::lock_guard mine(turn);
      has_turn.release();
      const Time deadline = host::SteadyClock().now() + std::chrono::seconds(20);
      while (!told && !late) {
        wake->wait_until(deadline);
        late = host::SteadyClock().now() >= deadline;
      }
    });
    has_turn.acquire();
    {
      const std::lock_guard mine(turn);
      told = true;
      EXPECT_FALSE(late);
      wake->notify();
    }
    sleeper.join();
    EXPECT_FALSE(late);
  }
  plane.share(nullptr);
}

TEST(MessagePlane, TellsRunsApart) {
  const Pipeline pipeline = Pipeline::chain(2, 4);
  PlaneSet planes(2);
  PipelineOnPlanes first(planes, pipeline, 1);
  PipelineOnPlanes second(planes, pipeline, 2);
  first.transports[0]->send(activation(1), 0);
  second.transports[0]->send(activation(2), 0);
  const std::vector<Offer> of_first = first.all<Offer>(1);
  const std::vector<Offer> of_second = second.all<Offer>(1);
  ASSERT_EQ(of_first.size(), 1U);
  ASSERT_EQ(of_second.size(), 1U);
  EXPECT_EQ(of_first[0].id.microbatch, 1U);
  EXPECT_EQ(of_second[0].id.microbatch, 2U);
  EXPECT_THROW((void)planes.planes[0]->transport(1, pipeline, 0, {0, 1}, nullptr), ConfigError);
}

TEST(MessagePlane, KeepsMessagesOfARunThatIsNotOpenYet) {
  const Pipeline pipeline = Pipeline::chain(2, 4);
  PlaneSet planes(2);
  host::SlotBuffers sender(pipeline, 0, 4);
  host::SlotBuffers receiver(pipeline, 1, 4);
  const auto from = planes.planes[0]->transport(5, pipeline, 0, {0, 1}, &sender);
  sender[0].outputs[0].push_back(typed_tensor(kFloat, {1000}, 4));
  const std::vector<std::byte> sent = bytes_of_tensor(sender[0].outputs[0][0]);
  from->send(activation(0), 0);
  from->send(activation(1), 1);
  planes.settle();
  const auto to = planes.planes[1]->transport(5, pipeline, 1, {0, 1}, &receiver);
  Offer offer;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(to->poll(offer));
    to->accept(offer, offer.id.microbatch);
  }
  Arrival arrival;
  int arrived = 0;
  for (int turn = 0; turn < 500; ++turn) {
    planes.settle(1);
    while (to->poll(arrival)) ++arrived;
  }
  EXPECT_EQ(arrived, 2);
  EXPECT_EQ(bytes_of_tensor(receiver[0].inputs[0].at(0)), sent);
}

TEST(MessagePlane, EndsWithMessagesOfARunThatWasNeverOpen) {
  const Pipeline pipeline = Pipeline::chain(2, 4);
  PlaneSet planes(2);
  host::SlotBuffers sender(pipeline, 0, 4);
  const auto from = planes.planes[0]->transport(5, pipeline, 0, {0, 1}, &sender);
  sender[0].outputs[0].push_back(typed_tensor(kFloat, {1000}, 4));
  from->send(activation(0), 0);
  from->send(activation(1), 1);
  planes.settle();
}

TEST(MessagePlane, RefusesRanksThatDoNotFit) {
  const Pipeline pipeline = Pipeline::chain(2, 4);
  PlaneSet planes(2);
  MessagePlane& plane = *planes.planes[0];
  EXPECT_THROW((void)plane.transport(1, pipeline, 0, {0}, nullptr), ConfigError);
  EXPECT_THROW((void)plane.transport(1, pipeline, 0, {1, 0}, nullptr), ConfigError);
  EXPECT_THROW((void)plane.transport(1, pipeline, 0, {0, 0}, nullptr), ConfigError);
  EXPECT_THROW((void)plane.transport(1, pipeline, 0, {0, 2}, nullptr), ConfigError);
  EXPECT_THROW((void)plane.transport(1, pipeline, 2, {0, 1}, nullptr), ConfigError);
  EXPECT_NO_THROW((void)plane.transport(1, pipeline, 0, {0, 1}, nullptr));
}

/// Ranks of one job that disagree about whether messages have tensors.
TEST(MessagePlane, RefusesTensorsWhereNoneAreExpected) {
  const Pipeline pipeline = Pipeline::chain(2, 4);
  PlaneSet planes(2);
  host::SlotBuffers sender(pipeline, 0, 4);
  const auto from = planes.planes[0]->transport(1, pipeline, 0, {0, 1}, &sender);
  const auto to = planes.planes[1]->transport(1, pipeline, 1, {0, 1}, nullptr);
  sender[0].outputs[0].push_back(typed_tensor(kFloat, {10}, 4));
  from->send(activation(0), 0);
  EXPECT_THROW(planes.settle(), ProtocolError);
}

TEST(MessagePlane, TakesReceivedTensorsFromTheGivenMemory) {
  class Marked final : public ReceiveMemory {
   public:
    [[nodiscard]] DLDevice device() const noexcept override { return {kDLCUDAHost, 0}; }
    [[nodiscard]] void* allocate(std::size_t bytes) override { return host_.allocate(bytes); }
    void release(void* memory, std::size_t bytes) noexcept override { host_.release(memory, bytes); }

   private:
    HostMemory host_;
  };
  const Pipeline pipeline = Pipeline::chain(2, 4);
  PlaneOptions options;
  options.memory = std::make_shared<Marked>();
  PlaneSet planes(2, options);
  PipelineOnPlanes ranks(planes, pipeline);
  (*ranks.buffers[0])[0].outputs[0].push_back(typed_tensor(kFloat, {1000}, 4));
  ranks.transports[0]->send(activation(0), 0);
  for (const Offer& offer : ranks.all<Offer>(1)) ranks.transports[1]->accept(offer, 0);
  ASSERT_EQ(ranks.all<Arrival>(1).size(), 1U);
  EXPECT_EQ((*ranks.buffers[1])[0].inputs[0].at(0)->dl_tensor.device.device_type, kDLCUDAHost);
}

TEST(MessagePlane, RefusesGroupsThatDoNotFit) {
  PlaneSet planes(2);
  MessagePlane& plane = *planes.planes[0];
  EXPECT_THROW((void)plane.channel(1, {1}, 64), ConfigError);
  EXPECT_THROW((void)plane.channel(1, {0, 0}, 64), ConfigError);
  EXPECT_THROW((void)plane.channel(1, {0, 2}, 64), ConfigError);
  EXPECT_THROW((void)plane.channel(1, {0, 1}, std::size_t{1} << 40U), ConfigError);
  const auto channel = plane.channel(1, {1, 0}, 64);
  EXPECT_EQ(channel->member(), 1U);
  EXPECT_THROW((void)plane.channel(1, {0, 1}, 64), ConfigError);
  EXPECT_THROW(channel->send(0, std::vector<std::byte>(65)), Error);
  EXPECT_THROW(channel->send(1, {}), Error);
  EXPECT_THROW(channel->send(2, {}), Error);
}

}  // namespace
}  // namespace sluice::ucx
