#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include "sluice/host/delayed_transport.hpp"
#include "sluice/host/event_wake.hpp"
#include "sluice/host/in_process_network.hpp"
#include "sluice/sim/sim_network.hpp"
#if SLUICE_HAVE_UCX
#include "rank_threads.hpp"
#include "sluice/ucx/message_plane.hpp"
#endif

/// What every transport must do, whatever is behind it.
namespace sluice {
namespace {

using namespace std::chrono_literals;

constexpr Microbatch kMicrobatches = 6;

/// Stages that are threads of one process; everything is there at once.
class InProcessRig {
 public:
  explicit InProcessRig(const Pipeline& pipeline, bool with_buffers = false) : wakes_(pipeline.stages()) {
    for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
      if (with_buffers) buffers_.push_back(std::make_unique<host::SlotBuffers>(pipeline, stage, 1000));
      members_.push_back({with_buffers ? buffers_.back().get() : nullptr, &wakes_[stage]});
    }
    network_ = std::make_unique<host::InProcessNetwork>(pipeline, members_);
  }

  Transport& endpoint(StageId stage) { return network_->endpoint(stage); }
  void pass_time() {}

 private:
  std::vector<host::EventWake> wakes_;
  std::vector<std::unique_ptr<host::SlotBuffers>> buffers_;
  std::vector<host::InProcessNetwork::Member> members_;
  std::unique_ptr<host::InProcessNetwork> network_;
};

class BufferedRig : public InProcessRig {
 public:
  explicit BufferedRig(const Pipeline& pipeline) : InProcessRig(pipeline, true) {}
};

class DelayedRig {
 public:
  explicit DelayedRig(const Pipeline& pipeline) : inner_(pipeline) {
    for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
      endpoints_.push_back(std::make_unique<host::DelayedTransport>(
          inner_.endpoint(stage), pipeline, stage, clock_, host::DelayModel::parse("tail:0.7,5"), 1,
          [] { return Duration{0}; }));
    }
  }

  Transport& endpoint(StageId stage) { return *endpoints_[stage]; }
  void pass_time() {
    Time next = kNever;
    for (const auto& endpoint : endpoints_) next = std::min(next, endpoint->next_deadline());
    if (next != kNever) clock_.advance_to(std::max(next, clock_.now()));
  }

 private:
  sim::VirtualClock clock_;
  InProcessRig inner_;
  std::vector<std::unique_ptr<host::DelayedTransport>> endpoints_;
};

class SimRig {
 public:
  explicit SimRig(const Pipeline& pipeline) : network_(pipeline, clock_, timetable_, delay_of) {}

  Transport& endpoint(StageId stage) { return network_.endpoint(stage); }
  void pass_time() {
    if (timetable_.empty()) return;
    clock_.advance_to(timetable_.next_time());
    timetable_.pop();
  }

 private:
  static Duration delay_of(const sim::Transit& transit) {
    return std::chrono::milliseconds(transit.id.microbatch % 3);
  }

  sim::VirtualClock clock_;
  sim::Timetable timetable_;
  sim::SimNetwork network_;
};

#if SLUICE_HAVE_UCX
/// Stages with a message plane each, as processes have them. Messages need a look or two at both ends.
class UcxRig {
 public:
  explicit UcxRig(const Pipeline& pipeline, bool with_buffers = false)
      : planes_(pipeline.stages()), endpoints_(pipeline.stages()) {
    test::on_each_rank(pipeline.stages(), [&](process::Bootstrap& bootstrap) {
      planes_[bootstrap.rank()] = std::make_unique<ucx::MessagePlane>(bootstrap, ucx::PlaneOptions{});
    });
    std::vector<std::uint32_t> ranks(pipeline.stages());
    std::iota(ranks.begin(), ranks.end(), 0);
    for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
      if (with_buffers) buffers_.push_back(std::make_unique<host::SlotBuffers>(pipeline, stage, 1000));
      host::SlotBuffers* buffers = with_buffers ? buffers_.back().get() : nullptr;
      endpoints_[stage] = planes_[stage]->transport(1, pipeline, stage, ranks, buffers);
    }
    connect(ranks);
  }

  /// All planes end in this thread: none can wait for another.
  ~UcxRig() {
    for (const auto& plane : planes_) plane->abandon();
  }
  UcxRig(const UcxRig&) = delete;
  UcxRig& operator=(const UcxRig&) = delete;

  Transport& endpoint(StageId stage) { return *endpoints_[stage]; }
  void pass_time() {
    for (const auto& plane : planes_) plane->progress();
  }

 private:
  /// A word from each rank to each: UCX connects when it is first needed, in its own time.
  void connect(const std::vector<std::uint32_t>& ranks) {
    std::vector<std::unique_ptr<agree::GroupChannel>> channels;
    for (const auto& plane : planes_) channels.push_back(plane->channel(2, ranks, 0));
    for (const std::uint32_t from : ranks) {
      for (const std::uint32_t to : ranks) {
        if (from != to) channels[from]->send(to, {});
      }
    }
    const auto until = std::chrono::steady_clock::now() + 20s;
    std::size_t missing = ranks.size() * (ranks.size() - 1);
    while (missing > 0 && std::chrono::steady_clock::now() < until) {
      std::uint32_t from = 0;
      std::span<const std::byte> message;
      for (const auto& channel : channels) missing -= channel->poll(from, message) ? 1 : 0;
    }
  }

  std::vector<std::unique_ptr<ucx::MessagePlane>> planes_;
  std::vector<std::unique_ptr<host::SlotBuffers>> buffers_;
  std::vector<std::unique_ptr<Transport>> endpoints_;
};

class BufferedUcxRig : public UcxRig {
 public:
  explicit BufferedUcxRig(const Pipeline& pipeline) : UcxRig(pipeline, true) {}
};
#endif

MessageId activation(EdgeId edge, Microbatch microbatch, std::uint64_t iteration = 0) {
  return {iteration, microbatch, edge, Direction::Activation};
}
MessageId gradient(EdgeId edge, Microbatch microbatch, std::uint64_t iteration = 0) {
  return {iteration, microbatch, edge, Direction::Gradient};
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

#if SLUICE_HAVE_UCX
using Rigs = ::testing::Types<InProcessRig, BufferedRig, DelayedRig, SimRig, UcxRig, BufferedUcxRig>;
#else
using Rigs = ::testing::Types<InProcessRig, BufferedRig, DelayedRig, SimRig>;
#endif
TYPED_TEST_SUITE(TransportConformance, Rigs);

TYPED_TEST(TransportConformance, IsSilentAtFirst) {
  const Pipeline pipeline = Pipeline::chain(2, kMicrobatches);
  TypeParam rig(pipeline);
  for (StageId stage = 0; stage < 2; ++stage) {
    EXPECT_TRUE(this->template drain<Offer>(rig, stage).empty());
    EXPECT_TRUE(this->template drain<Arrival>(rig, stage).empty());
    EXPECT_TRUE(this->template drain<SendDone>(rig, stage).empty());
    EXPECT_EQ(rig.endpoint(stage).next_deadline(), kNever);
  }
}

TYPED_TEST(TransportConformance, OffersReachTheOtherEndOfTheirEdgeOnly) {
  const Pipeline pipeline = Pipeline::chain(4, kMicrobatches);
  TypeParam rig(pipeline);
  rig.endpoint(1).send(activation(1, 3), 0);
  rig.endpoint(1).send(gradient(0, 2), 1);
  EXPECT_EQ(this->ids(this->template drain<Offer>(rig, 0)), std::vector{gradient(0, 2)});
  EXPECT_EQ(this->ids(this->template drain<Offer>(rig, 2)), std::vector{activation(1, 3)});
  EXPECT_TRUE(this->template drain<Offer>(rig, 1).empty());
  EXPECT_TRUE(this->template drain<Offer>(rig, 3).empty());
}

TYPED_TEST(TransportConformance, AnOfferThatIsNotAcceptedStaysAtItsSender) {
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

TYPED_TEST(TransportConformance, OffersMayBeAcceptedInAnyOrder) {
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

TYPED_TEST(TransportConformance, CarriesMessagesBetweenTwoChunksOfOneStage) {
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

TYPED_TEST(TransportConformance, TwoStagesMayBeEachOthersPreviousAndNext) {
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
    for (const Offer& offer : offers) rig.endpoint(stage).accept(offer, offer.id.edge);
    for (const Arrival& arrival : this->template drain<Arrival>(rig, stage))
      EXPECT_EQ(arrival.slot, arrival.id.edge);
  }
  for (StageId stage = 0; stage < 2; ++stage) {
    EXPECT_EQ(this->ids(this->template drain<SendDone>(rig, stage)),
              std::vector<MessageId>(expected[1 - stage].begin(), expected[1 - stage].end()));
  }
}

TYPED_TEST(TransportConformance, HoldsTheMessagesOfTwoIterations) {
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
  for (const Offer& offer : offers) rig.endpoint(1).accept(offer, offer.id.microbatch);
  EXPECT_EQ(this->ids(this->template drain<Arrival>(rig, 1)), sent);
  EXPECT_EQ(this->ids(this->template drain<SendDone>(rig, 0)), sent);
}

/// Every message once at its receiver and once back at its sender, over many iterations, with accepts in
/// an order unlike that of the offers.
TYPED_TEST(TransportConformance, EverySendEndsOnceAndAfterItsAcceptance) {
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
        rig.endpoint(stage).accept(offer, offer.id.microbatch);
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

}  // namespace
}  // namespace sluice
