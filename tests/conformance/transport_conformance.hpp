#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "sluice/pipeline.hpp"
#include "sluice/transport.hpp"

/// What every transport must do, whatever is behind it. A rig is made of a pipeline and has
///
///     Transport& endpoint(StageId);
///     void pass_time();  // so that what is on its way gets on
///
/// and, where messages carry tensors (TransportPayloadConformance),
///
///     void put(StageId, const MessageId&, Slot, const Payload&);  // into the slot that is to be sent
///     Payload get(StageId, const MessageId&, Slot);               // out of the slot it was accepted into
namespace sluice::conformance {

inline constexpr Microbatch kMicrobatches = 6;

/// The elements of each tensor of a message.
using Payload = std::vector<std::vector<double>>;
/// Tensors of a message in these tests, and most elements of each.
inline constexpr std::size_t kTensors = 2;
inline constexpr std::size_t kMostElements = 64;

inline MessageId activation(EdgeId edge, Microbatch microbatch, std::uint64_t iteration = 0) {
  return {iteration, microbatch, edge, Direction::Activation};
}
inline MessageId gradient(EdgeId edge, Microbatch microbatch, std::uint64_t iteration = 0) {
  return {iteration, microbatch, edge, Direction::Gradient};
}
/// A slot for each message of an iteration, as none may be used twice at a time; none of those that the tests
/// send from.
inline Slot slot_for(const MessageId& id) {
  const std::uint32_t way = 2U * id.edge + static_cast<std::uint32_t>(id.direction);
  return 2 * kMicrobatches + way * kMicrobatches + id.microbatch;
}

template <typename Rig>
class TransportConformance : public ::testing::Test {
 protected:
  /// Everything a poll finds, letting time pass between.
  template <typename Item>
  static std::vector<Item> drain(Rig& rig, StageId stage) {
    std::vector<Item> items;
    Item item;
    for (int turn = 0; turn < 300; ++turn) {
      while (rig.endpoint(stage).poll(item)) items.push_back(item);
      rig.pass_time();
    }
    return items;
  }
  template <typename Item>
  static std::vector<MessageId> ids(const std::vector<Item>& items) {
    std::vector<MessageId> result;
    for (const Item& item : items) result.push_back(item.id);
    std::sort(result.begin(), result.end());
    return result;
  }
};

TYPED_TEST_SUITE_P(TransportConformance);

TYPED_TEST_P(TransportConformance, IsSilentAtFirst) {
  const Pipeline pipeline = Pipeline::chain(2, kMicrobatches);
  TypeParam rig(pipeline);
  for (StageId stage = 0; stage < 2; ++stage) {
    EXPECT_TRUE(this->template drain<Offer>(rig, stage).empty());
    EXPECT_TRUE(this->template drain<Arrival>(rig, stage).empty());
    EXPECT_TRUE(this->template drain<SendDone>(rig, stage).empty());
    EXPECT_EQ(rig.endpoint(stage).next_deadline(), kNever);
  }
}

TYPED_TEST_P(TransportConformance, OffersReachTheOtherEndOfTheirEdgeOnly) {
  const Pipeline pipeline = Pipeline::chain(4, kMicrobatches);
  TypeParam rig(pipeline);
  rig.endpoint(1).send(activation(1, 3), 0);
  rig.endpoint(1).send(gradient(0, 2), 1);
  EXPECT_EQ(this->ids(this->template drain<Offer>(rig, 0)), std::vector{gradient(0, 2)});
  EXPECT_EQ(this->ids(this->template drain<Offer>(rig, 2)), std::vector{activation(1, 3)});
  EXPECT_TRUE(this->template drain<Offer>(rig, 1).empty());
  EXPECT_TRUE(this->template drain<Offer>(rig, 3).empty());
}

TYPED_TEST_P(TransportConformance, AnOfferThatIsNotAcceptedStaysAtItsSender) {
  const Pipeline pipeline = Pipeline::chain(2, kMicrobatches);
  TypeParam rig(pipeline);
  rig.endpoint(0).send(activation(0, 0), 4);
  const auto offers = this->template drain<Offer>(rig, 1);
  ASSERT_EQ(offers.size(), 1U);
  EXPECT_TRUE(this->template drain<Arrival>(rig, 1).empty());
  EXPECT_TRUE(this->template drain<SendDone>(rig, 0).empty());
  rig.endpoint(1).accept(offers[0], 9);
  const auto arrivals = this->template drain<Arrival>(rig, 1);
  ASSERT_EQ(arrivals.size(), 1U);
  EXPECT_EQ(arrivals[0].id, activation(0, 0));
  EXPECT_EQ(arrivals[0].slot, 9U);
  const auto sent = this->template drain<SendDone>(rig, 0);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].id, activation(0, 0));
  EXPECT_EQ(sent[0].slot, 4U);
}

TYPED_TEST_P(TransportConformance, OffersMayBeAcceptedInAnyOrder) {
  const Pipeline pipeline = Pipeline::chain(2, kMicrobatches);
  TypeParam rig(pipeline);
  for (Microbatch m = 0; m < kMicrobatches; ++m) rig.endpoint(0).send(activation(0, m), 10 + m);
  auto offers = this->template drain<Offer>(rig, 1);
  ASSERT_EQ(offers.size(), kMicrobatches);
  std::sort(offers.begin(), offers.end(), [](const Offer& a, const Offer& b) { return a.id > b.id; });
  for (const Microbatch taken : {2U, 0U, 5U, 1U, 4U, 3U}) {
    rig.endpoint(1).accept(offers[taken], 100 + taken);
    const auto arrivals = this->template drain<Arrival>(rig, 1);
    ASSERT_EQ(arrivals.size(), 1U);
    EXPECT_EQ(arrivals[0].id, offers[taken].id);
    EXPECT_EQ(arrivals[0].slot, 100 + taken);
    const auto sent = this->template drain<SendDone>(rig, 0);
    ASSERT_EQ(sent.size(), 1U);
    EXPECT_EQ(sent[0].id, offers[taken].id);
    EXPECT_EQ(sent[0].slot, 10 + offers[taken].id.microbatch);
  }
}

TYPED_TEST_P(TransportConformance, CarriesMessagesBetweenTwoChunksOfOneStage) {
  const Pipeline pipeline = Pipeline::v_shape(2, kMicrobatches);
  TypeParam rig(pipeline);
  // Chunks 1 and 2, the two ends of edge 1, lie on stage 1.
  rig.endpoint(1).send(activation(1, 0), 3);
  rig.endpoint(1).send(gradient(1, 5), 4);
  const auto offers = this->template drain<Offer>(rig, 1);
  EXPECT_EQ(this->ids(offers), (std::vector{activation(1, 0), gradient(1, 5)}));
  for (const Offer& offer : offers) rig.endpoint(1).accept(offer, 20 + offer.id.microbatch);
  const auto arrivals = this->template drain<Arrival>(rig, 1);
  EXPECT_EQ(this->ids(arrivals), this->ids(offers));
  for (const Arrival& arrival : arrivals) EXPECT_EQ(arrival.slot, 20 + arrival.id.microbatch);
  EXPECT_EQ(this->ids(this->template drain<SendDone>(rig, 1)), this->ids(offers));
  EXPECT_TRUE(this->template drain<Offer>(rig, 0).empty());
}

TYPED_TEST_P(TransportConformance, TwoStagesMayBeEachOthersPreviousAndNext) {
  const Pipeline pipeline = Pipeline::interleaved(2, 3, kMicrobatches);
  TypeParam rig(pipeline);
  std::set<MessageId> expected[2];
  for (EdgeId edge = 0; edge < pipeline.edges().size(); ++edge) {
    const StageId from = pipeline.stage_of(pipeline.edges()[edge].from);
    for (Microbatch m = 0; m < kMicrobatches; ++m) {
      rig.endpoint(from).send(activation(edge, m), m);
      rig.endpoint(1 - from).send(gradient(edge, m), m);
      expected[1 - from].insert(activation(edge, m));
      expected[from].insert(gradient(edge, m));
    }
  }
  for (StageId stage = 0; stage < 2; ++stage) {
    const auto offers = this->template drain<Offer>(rig, stage);
    EXPECT_EQ(this->ids(offers), std::vector<MessageId>(expected[stage].begin(), expected[stage].end()));
    for (const Offer& offer : offers) rig.endpoint(stage).accept(offer, slot_for(offer.id));
    for (const Arrival& arrival : this->template drain<Arrival>(rig, stage))
      EXPECT_EQ(arrival.slot, slot_for(arrival.id));
  }
  for (StageId stage = 0; stage < 2; ++stage) {
    EXPECT_EQ(this->ids(this->template drain<SendDone>(rig, stage)),
              std::vector<MessageId>(expected[1 - stage].begin(), expected[1 - stage].end()));
  }
}

TYPED_TEST_P(TransportConformance, HoldsTheMessagesOfTwoIterations) {
  const Pipeline pipeline = Pipeline::chain(2, kMicrobatches);
  TypeParam rig(pipeline);
  std::vector<MessageId> sent;
  for (const std::uint64_t iteration : {7U, 8U}) {
    for (Microbatch m = 0; m < kMicrobatches; ++m) {
      sent.push_back(activation(0, m, iteration));
      rig.endpoint(0).send(sent.back(), m);
    }
  }
  const auto offers = this->template drain<Offer>(rig, 1);
  EXPECT_EQ(this->ids(offers), sent);
  Slot slot = 0;
  for (const Offer& offer : offers) rig.endpoint(1).accept(offer, slot++);
  EXPECT_EQ(this->ids(this->template drain<Arrival>(rig, 1)), sent);
  EXPECT_EQ(this->ids(this->template drain<SendDone>(rig, 0)), sent);
}

/// Every message once at its receiver and once back at its sender, over many iterations, with accepts in
/// an order unlike that of the offers.
TYPED_TEST_P(TransportConformance, EverySendEndsOnceAndAfterItsAcceptance) {
  const Pipeline pipeline = Pipeline::v_shape(3, kMicrobatches);
  TypeParam rig(pipeline);
  std::map<MessageId, int> accepted;
  std::map<MessageId, int> ended;
  for (std::uint64_t iteration = 0; iteration < 5; ++iteration) {
    for (EdgeId edge = 0; edge < pipeline.edges().size(); ++edge) {
      const Edge ends = pipeline.edges()[edge];
      for (Microbatch m = 0; m < kMicrobatches; ++m) {
        rig.endpoint(pipeline.stage_of(ends.from)).send(activation(edge, m, iteration), m);
        rig.endpoint(pipeline.stage_of(ends.to)).send(gradient(edge, m, iteration), m);
      }
    }
    for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
      auto offers = this->template drain<Offer>(rig, stage);
      std::reverse(offers.begin(), offers.end());
      for (const Offer& offer : offers) {
        rig.endpoint(stage).accept(offer, slot_for(offer.id));
        ++accepted[offer.id];
      }
      EXPECT_EQ(this->template drain<Arrival>(rig, stage).size(), offers.size());
    }
    for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
      for (const SendDone& done : this->template drain<SendDone>(rig, stage)) {
        EXPECT_EQ(accepted[done.id], 1);
        EXPECT_EQ(done.slot, done.id.microbatch);
        ++ended[done.id];
      }
    }
  }
  EXPECT_EQ(accepted.size(), 5 * 2 * pipeline.edges().size() * kMicrobatches);
  EXPECT_EQ(ended, accepted);
}

REGISTER_TYPED_TEST_SUITE_P(TransportConformance, IsSilentAtFirst, OffersReachTheOtherEndOfTheirEdgeOnly,
                            AnOfferThatIsNotAcceptedStaysAtItsSender, OffersMayBeAcceptedInAnyOrder,
                            CarriesMessagesBetweenTwoChunksOfOneStage,
                            TwoStagesMayBeEachOthersPreviousAndNext, HoldsTheMessagesOfTwoIterations,
                            EverySendEndsOnceAndAfterItsAcceptance);

template <typename Rig>
class TransportPayloadConformance : public TransportConformance<Rig> {
 protected:
  /// Elements that no other message has, and as many as no other microbatch has: an empty tensor too.
  static Payload payload_of(const MessageId& id) {
    Payload payload(kTensors);
    for (std::size_t tensor = 0; tensor < kTensors; ++tensor) {
      payload[tensor].resize(tensor == 0 ? kMostElements - id.microbatch : id.microbatch);
      for (std::size_t i = 0; i < payload[tensor].size(); ++i) {
        payload[tensor][i] = static_cast<double>(id.iteration) * 1e6 + static_cast<double>(id.edge) * 1e5 +
                             (id.direction == Direction::Gradient ? 5e4 : 0) +
                             static_cast<double>(id.microbatch * 1000 + tensor * 100 + i);
      }
    }
    return payload;
  }
  static void send(Rig& rig, StageId from, const MessageId& id, Slot slot) {
    rig.put(from, id, slot, payload_of(id));
    rig.endpoint(from).send(id, slot);
  }
  /// Accepts all offers, each into the slot that `slot_of` names, and looks at what arrives.
  template <typename SlotOf>
  void receive(Rig& rig, StageId stage, std::size_t count, SlotOf slot_of) {
    auto offers = this->template drain<Offer>(rig, stage);
    ASSERT_EQ(offers.size(), count);
    std::reverse(offers.begin(), offers.end());
    for (const Offer& offer : offers) rig.endpoint(stage).accept(offer, slot_of(offer.id));
    const auto arrivals = this->template drain<Arrival>(rig, stage);
    ASSERT_EQ(arrivals.size(), count);
    for (const Arrival& arrival : arrivals) {
      EXPECT_EQ(arrival.slot, slot_of(arrival.id));
      EXPECT_EQ(rig.get(stage, arrival.id, arrival.slot), payload_of(arrival.id)) << to_string(arrival.id);
    }
  }
};

TYPED_TEST_SUITE_P(TransportPayloadConformance);

TYPED_TEST_P(TransportPayloadConformance, PayloadsOfAnyShapeLandInTheirSlots) {
  const Pipeline pipeline = Pipeline::v_shape(2, kMicrobatches);
  TypeParam rig(pipeline);
  for (Microbatch m = 0; m < kMicrobatches; ++m) {
    this->send(rig, 0, activation(0, m), m);
    this->send(rig, 1, gradient(0, m), 50 + m);
  }
  this->receive(rig, 1, kMicrobatches, [](const MessageId& id) { return 10 + id.microbatch; });
  this->receive(rig, 0, kMicrobatches, [](const MessageId& id) { return 20 + id.microbatch; });
}

TYPED_TEST_P(TransportPayloadConformance, PayloadsPassBetweenTwoChunksOfOneStage) {
  const Pipeline pipeline = Pipeline::v_shape(2, kMicrobatches);
  TypeParam rig(pipeline);
  for (Microbatch m = 0; m < kMicrobatches; ++m) {
    this->send(rig, 1, activation(1, m), m);
    this->send(rig, 1, gradient(1, m), 50 + m);
  }
  this->receive(rig, 1, std::size_t{2} * kMicrobatches, [](const MessageId& id) {
    return (id.direction == Direction::Activation ? 20 : 70) + id.microbatch;
  });
}

/// Often enough for every bounded queue to come round, with slots used again at once.
TYPED_TEST_P(TransportPayloadConformance, PayloadsKeepApartOverManyIterations) {
  const Pipeline pipeline = Pipeline::chain(2, kMicrobatches);
  TypeParam rig(pipeline);
  for (std::uint64_t iteration = 0; iteration < 20; ++iteration) {
    for (Microbatch m = 0; m < kMicrobatches; ++m) this->send(rig, 0, activation(0, m, iteration), m);
    this->receive(rig, 1, kMicrobatches,
                  [&](const MessageId& id) { return (id.microbatch + iteration) % kMicrobatches; });
    for (Microbatch m = 0; m < kMicrobatches; ++m) this->send(rig, 1, gradient(0, m, iteration), m);
    this->receive(rig, 0, kMicrobatches, [](const MessageId& id) { return id.microbatch; });
    for (StageId stage = 0; stage < 2; ++stage)
      EXPECT_EQ(this->template drain<SendDone>(rig, stage).size(), kMicrobatches);
  }
}

REGISTER_TYPED_TEST_SUITE_P(TransportPayloadConformance, PayloadsOfAnyShapeLandInTheirSlots,
                            PayloadsPassBetweenTwoChunksOfOneStage, PayloadsKeepApartOverManyIterations);

}  // namespace sluice::conformance
