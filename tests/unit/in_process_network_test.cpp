#include "sluice/host/in_process_network.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "dlpack_tensor.hpp"
#include "sluice/error.hpp"
#include "sluice/host/event_wake.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::host {
namespace {

using namespace std::chrono_literals;

constexpr Microbatch kMicrobatches = 16;

/// Two stages with buffers.
class InProcessNetworkTest : public ::testing::Test {
 protected:
  explicit InProcessNetworkTest(Pipeline pipeline = Pipeline::chain(2, kMicrobatches))
      : pipeline_(std::move(pipeline)) {}

  static Offer take(Transport& endpoint) {
    Offer offer;
    EXPECT_TRUE(endpoint.poll(offer));
    return offer;
  }

  Pipeline pipeline_;
  std::array<SlotBuffers, 2> buffers_{SlotBuffers(pipeline_, 0, 8), SlotBuffers(pipeline_, 1, 8)};
  std::array<EventWake, 2> wakes_;
  std::array<InProcessNetwork::Member, 2> members_{{{&buffers_[0], &wakes_[0]}, {&buffers_[1], &wakes_[1]}}};
  InProcessNetwork network_{pipeline_, members_};
};

TEST_F(InProcessNetworkTest, RefusesTheWrongNumberOfMembers) {
  try {
    const InProcessNetwork network(pipeline_, std::span(members_).first(1));
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "stages");
  }
}

TEST_F(InProcessNetworkTest, AnActivationMovesWithoutACopy) {
  buffers_[0][2].outputs[0].push_back(test::make_vector({1, 2, 3}));
  const void* data = test::elements_of(buffers_[0][2].outputs[0][0]).data();
  network_.endpoint(0).send({0, 4, 0, Direction::Activation}, 2);
  const Offer offer = take(network_.endpoint(1));
  EXPECT_TRUE(buffers_[1][5].inputs[0].empty()) << "an offer costs the receiver nothing";
  EXPECT_EQ(buffers_[0][2].outputs[0].size(), 1U) << "and stays with the sender";
  network_.endpoint(1).accept(offer, 5);
  ASSERT_EQ(buffers_[1][5].inputs[0].size(), 1U);
  EXPECT_EQ(test::elements_of(buffers_[1][5].inputs[0][0]).data(), data);
  EXPECT_TRUE(buffers_[0][2].outputs[0].empty());
}

TEST_F(InProcessNetworkTest, AGradientMovesWithoutACopy) {
  buffers_[1][6].input_grads[0].push_back(test::make_vector({4}));
  const void* data = test::elements_of(buffers_[1][6].input_grads[0][0]).data();
  network_.endpoint(1).send({0, 4, 0, Direction::Gradient}, 6);
  network_.endpoint(0).accept(take(network_.endpoint(0)), 2);
  ASSERT_EQ(buffers_[0][2].output_grads[0].size(), 1U);
  EXPECT_EQ(test::elements_of(buffers_[0][2].output_grads[0][0]).data(), data);
}

TEST_F(InProcessNetworkTest, ASlotThatIsReusedIsNotTouchedByWhatWasSentBefore) {
  buffers_[0][0].outputs[0].push_back(test::make_vector({1}));
  network_.endpoint(0).send({0, 0, 0, Direction::Activation}, 0);
  network_.endpoint(1).accept(take(network_.endpoint(1)), 0);
  buffers_[0][0].outputs[0].push_back(test::make_vector({2}));
  network_.endpoint(0).send({0, 1, 0, Direction::Activation}, 0);
  network_.endpoint(1).accept(take(network_.endpoint(1)), 1);
  EXPECT_EQ(test::elements_of(buffers_[1][0].inputs[0].at(0))[0], 1);
  EXPECT_EQ(test::elements_of(buffers_[1][1].inputs[0].at(0))[0], 2);
}

TEST_F(InProcessNetworkTest, WakesTheReceiverOfAnOfferAndTheSenderOfAnAcceptedOne) {
  network_.endpoint(0).send({0, 0, 0, Direction::Activation}, 0);
  wakes_[1].wait_until(kNever);
  network_.endpoint(1).accept(take(network_.endpoint(1)), 0);
  wakes_[0].wait_until(kNever);
  EXPECT_EQ(wakes_[0].sleeps() + wakes_[1].sleeps(), 0U) << "both were notified before they waited";
}

TEST_F(InProcessNetworkTest, RefusesMoreMessagesThanCanBeUnderWay) {
  Transport& sender = network_.endpoint(0);
  EXPECT_THROW(
      {
        for (std::uint64_t i = 0; i < 10 * kMicrobatches; ++i) {
          sender.send(
              {i / kMicrobatches, static_cast<Microbatch>(i % kMicrobatches), 0, Direction::Activation}, 0);
        }
      },
      ProtocolError);
}

/// Stage 1 holds chunks 1 and 2, and edge 1 joins them; edges 0 and 2 go to stage 0 and back.
class LoopbackTest : public InProcessNetworkTest {
 protected:
  LoopbackTest() : InProcessNetworkTest(Pipeline::v_shape(2, kMicrobatches)) {}
};

TEST_F(LoopbackTest, MovesTensorsBetweenTwoSlotsOfOneStage) {
  buffers_[1][0].outputs[0].push_back(test::make_vector({9}));
  const void* data = test::elements_of(buffers_[1][0].outputs[0][0]).data();
  network_.endpoint(1).send({0, 0, 1, Direction::Activation}, 0);
  network_.endpoint(1).accept(take(network_.endpoint(1)), 3);
  EXPECT_EQ(test::elements_of(buffers_[1][3].inputs[0].at(0)).data(), data);
  SendDone done;
  EXPECT_TRUE(network_.endpoint(1).poll(done));
}

TEST(InProcessNetwork, PutsEachPayloadAtItsEdgesPlace) {
  const std::uint32_t encoders[] = {1, 1, 1};
  const Pipeline pipeline = Pipeline::joined(encoders, 1, kMicrobatches);
  std::vector<SlotBuffers> buffers;
  std::vector<EventWake> wakes(4);
  std::vector<InProcessNetwork::Member> members;
  for (StageId stage = 0; stage < 4; ++stage) buffers.emplace_back(pipeline, stage, 2);
  for (StageId stage = 0; stage < 4; ++stage) members.push_back({&buffers[stage], &wakes[stage]});
  InProcessNetwork network(pipeline, members);
  for (const StageId stage : {StageId{2}, StageId{0}, StageId{1}}) {
    buffers[stage][0].outputs[0].push_back(test::make_vector({static_cast<double>(stage)}));
    network.endpoint(stage).send({0, 0, pipeline.out_edges(stage)[0], Direction::Activation}, 0);
  }
  for (Offer offer; network.endpoint(3).poll(offer);) network.endpoint(3).accept(offer, 1);
  for (std::size_t place = 0; place < 3; ++place) {
    const Edge& edge = pipeline.edges()[pipeline.in_edges(3)[place]];
    EXPECT_EQ(test::elements_of(buffers[3][1].inputs[place].at(0))[0], edge.from);
  }
}

/// One rank: sends its messages of all iterations, at most one ahead of the other, and takes what comes.
class Peer {
 public:
  Peer(Transport& transport, SlotBuffers& buffers, EventWake& wake, StageId stage)
      : transport_(transport), buffers_(buffers), wake_(wake), stage_(stage) {}

  void run(std::uint64_t iterations) {
    for (std::uint64_t iteration = 0; iteration < iterations; ++iteration) {
      for (Microbatch m = 0; m < kMicrobatches; ++m) {
        out(m).push_back(test::make_vector({static_cast<double>(iteration * kMicrobatches + m)}));
        transport_.send({iteration, m, 0, stage_ == 0 ? Direction::Activation : Direction::Gradient}, m);
      }
      sent_ = 0;
      while (sent_ < kMicrobatches || received_ < (iteration + 1) * kMicrobatches) {
        if (!progress()) wake_.wait_until(SteadyClock().now() + 1s);
      }
    }
  }
  [[nodiscard]] std::uint64_t wrong() const { return wrong_; }

 private:
  Payload& out(Slot slot) { return stage_ == 0 ? buffers_[slot].outputs[0] : buffers_[slot].input_grads[0]; }
  Payload& in(Slot slot) { return stage_ == 0 ? buffers_[slot].output_grads[0] : buffers_[slot].inputs[0]; }

  bool progress() {
    bool happened = false;
    for (SendDone done; transport_.poll(done); happened = true) ++sent_;
    for (Offer offer; transport_.poll(offer); happened = true) {
      // The other may be one iteration ahead: its messages must not land on those not yet looked at.
      const auto half = static_cast<Slot>(1 + offer.id.iteration % 2);
      transport_.accept(offer, half * kMicrobatches + offer.id.microbatch);
    }
    for (Arrival arrival; transport_.poll(arrival); happened = true) {
      Payload& payload = in(arrival.slot);
      const double expected =
          static_cast<double>(arrival.id.iteration * kMicrobatches + arrival.id.microbatch);
      wrong_ += payload.size() == 1 && test::elements_of(payload[0])[0] == expected ? 0 : 1;
      payload.clear();
      ++received_;
    }
    return happened;
  }

  Transport& transport_;
  SlotBuffers& buffers_;
  EventWake& wake_;
  StageId stage_;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t wrong_ = 0;
};

/// Both directions at the same time, from two threads: for ThreadSanitizer, and for what it delivers.
TEST(InProcessNetwork, TwoThreadsExchangeMessagesInBothDirections) {
  const Pipeline pipeline = Pipeline::chain(2, kMicrobatches);
  std::array<SlotBuffers, 2> buffers{SlotBuffers(pipeline, 0, 3 * kMicrobatches),
                                     SlotBuffers(pipeline, 1, 3 * kMicrobatches)};
  std::array<EventWake, 2> wakes;
  const std::array<InProcessNetwork::Member, 2> members{
      {{buffers.data(), wakes.data()}, {&buffers[1], &wakes[1]}}};
  InProcessNetwork network(pipeline, members);
  Peer first(network.endpoint(0), buffers[0], wakes[0], 0);
  Peer second(network.endpoint(1), buffers[1], wakes[1], 1);
  std::thread other([&] { second.run(200); });
  first.run(200);
  other.join();
  EXPECT_EQ(first.wrong(), 0U);
  EXPECT_EQ(second.wrong(), 0U);
}

}  // namespace
}  // namespace sluice::host
