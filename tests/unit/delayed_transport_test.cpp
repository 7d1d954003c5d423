#include "sluice/host/delayed_transport.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sluice/host/in_process_network.hpp"
#include "sluice/sim/timetable.hpp"

namespace sluice::host {
namespace {

using namespace std::chrono_literals;

constexpr Microbatch kMicrobatches = 32;
constexpr std::uint64_t kSeed = 11;

class NoWake final : public Wake {
 public:
  void notify() noexcept override {}
  void wait_until(Time /*deadline*/) override {}
};

/// Stage 1 of a V: edge 0 comes from stage 0, edge 1 joins its own two chunks.
class DelayedTransportTest : public ::testing::Test {
 protected:
  DelayedTransport& make(const std::string& model, std::uint64_t seed = kSeed) {
    delayed_.emplace(network_.endpoint(1), pipeline_, StageId{1}, clock_, DelayModel::parse(model), seed,
                     [this] { return average_.value(); });
    return *delayed_;
  }
  void send(Microbatch microbatch, EdgeId edge = 0, std::uint64_t iteration = 0) {
    network_.endpoint(edge == 0 ? 0 : 1)
        .send({iteration, microbatch, edge, Direction::Activation}, microbatch);
  }
  /// When each message is first seen, looked at only when the transport says so.
  std::map<Microbatch, Time> arrivals(DelayedTransport& transport) {
    std::map<Microbatch, Time> times;
    Offer offer;
    while (true) {
      while (transport.poll(offer)) times[offer.id.microbatch] = clock_.now();
      if (transport.next_deadline() == kNever) return times;
      EXPECT_GT(transport.next_deadline(), clock_.now()) << "what is due must have been given out";
      clock_.advance_to(transport.next_deadline());
    }
  }
  static Duration drawn(const std::string& model, Microbatch microbatch, std::uint64_t seed = kSeed,
                        Duration average = {}) {
    return DelayModel::parse(model).draw(seed, {0, microbatch, 0, Direction::Activation}, average);
  }

  Pipeline pipeline_ = Pipeline::v_shape(2, kMicrobatches);
  NoWake wake_;
  std::vector<InProcessNetwork::Member> members_{{nullptr, &wake_}, {nullptr, &wake_}};
  InProcessNetwork network_{pipeline_, members_};
  sim::VirtualClock clock_;
  ComputeAverage average_;
  std::optional<DelayedTransport> delayed_;
};

TEST_F(DelayedTransportTest, EachMessageIsLateByItsDraw) {
  DelayedTransport& transport = make("tail:0.5,10");
  for (Microbatch m = 0; m < kMicrobatches; ++m) send(m);
  const auto times = arrivals(transport);
  ASSERT_EQ(times.size(), kMicrobatches);
  std::size_t late = 0;
  for (const auto& [microbatch, time] : times) {
    EXPECT_EQ(time, drawn("tail:0.5,10", microbatch));
    late += time > Time{0} ? 1U : 0U;
  }
  EXPECT_GT(late, 5U);
  EXPECT_LT(late, kMicrobatches - 5);
}

TEST_F(DelayedTransportTest, DelaysDoNotDependOnTheOrderOfSending) {
  std::map<Microbatch, Time> forwards;
  std::map<Microbatch, Time> backwards;
  {
    DelayedTransport& transport = make("tail:0.5,10");
    for (Microbatch m = 0; m < kMicrobatches; ++m) send(m);
    forwards = arrivals(transport);
  }
  clock_.advance_to(Time{0});
  DelayedTransport& transport = make("tail:0.5,10");
  for (Microbatch m = kMicrobatches; m-- > 0;) send(m);
  backwards = arrivals(transport);
  EXPECT_EQ(forwards, backwards);
}

TEST_F(DelayedTransportTest, AnotherSeedOrIterationDelaysOtherwise) {
  DelayedTransport& transport = make("tail:1,10", kSeed + 1);
  send(0);
  EXPECT_NE(arrivals(transport)[0], drawn("tail:1,10", 0));
  const Time before = clock_.now();
  send(0, 0, 1);
  EXPECT_NE(arrivals(transport)[0] - before, drawn("tail:1,10", 0, kSeed + 1));
}

TEST_F(DelayedTransportTest, TheDelayCountsFromWhenTheMessageComes) {
  DelayedTransport& transport = make("tail:1,10");
  clock_.advance_to(70ms);
  send(3);
  EXPECT_EQ(arrivals(transport)[3], 70ms + drawn("tail:1,10", 3));
}

TEST_F(DelayedTransportTest, MessagesOfTheStageItselfAreNotLate) {
  DelayedTransport& transport = make("tail:1,10");
  for (Microbatch m = 0; m < kMicrobatches; ++m) send(m, 1);
  Offer offer;
  for (Microbatch m = 0; m < kMicrobatches; ++m) EXPECT_TRUE(transport.poll(offer));
  EXPECT_EQ(transport.next_deadline(), kNever);
}

TEST_F(DelayedTransportTest, APunctualMessageOvertakesALateOne) {
  DelayedTransport& transport = make("tail:0.5,10");
  Microbatch late = 0;
  while (drawn("tail:0.5,10", late) == Duration{0}) ++late;
  Microbatch punctual = 0;
  while (drawn("tail:0.5,10", punctual) != Duration{0}) ++punctual;
  send(late);
  send(punctual);
  Offer offer;
  ASSERT_TRUE(transport.poll(offer));
  EXPECT_EQ(offer.id.microbatch, punctual);
  EXPECT_FALSE(transport.poll(offer));
  EXPECT_EQ(transport.next_deadline(), drawn("tail:0.5,10", late));
}

TEST_F(DelayedTransportTest, AllThatIsDueComesOutInTheOrderOfItsTime) {
  DelayedTransport& transport = make("tail:1,10");
  for (Microbatch m = 0; m < kMicrobatches; ++m) send(m);
  Offer offer;
  EXPECT_FALSE(transport.poll(offer));
  clock_.advance_to(10s);
  std::vector<Duration> delays;
  while (transport.poll(offer)) delays.push_back(drawn("tail:1,10", offer.id.microbatch));
  EXPECT_EQ(delays.size(), kMicrobatches);
  EXPECT_TRUE(std::is_sorted(delays.begin(), delays.end()));
}

TEST_F(DelayedTransportTest, LevelsFollowTheStagesComputeAverage) {
  DelayedTransport& transport = make("j3");
  for (int i = 0; i < 200; ++i) average_.add(1s);
  Microbatch late = 0;
  while (drawn("j3", late) == Duration{0}) ++late;
  send(late);
  EXPECT_EQ(arrivals(transport)[late], drawn("j3", late, kSeed, average_.value()));
  EXPECT_GT(clock_.now(), 500ms);
}

TEST_F(DelayedTransportTest, OnlyTheOfferIsLate) {
  DelayedTransport& transport = make("tail:1,10");
  send(0);
  (void)arrivals(transport);
  send(1);
  clock_.advance_to(clock_.now() + 1h);
  Offer offer;
  while (!transport.poll(offer)) clock_.advance_to(transport.next_deadline());
  transport.accept(offer, 5);
  Arrival arrival;
  EXPECT_TRUE(transport.poll(arrival));
  EXPECT_EQ(arrival.slot, 5U);
  SendDone done;
  EXPECT_TRUE(network_.endpoint(0).poll(done));
  transport.send({0, 0, 0, Direction::Gradient}, 2);
  EXPECT_TRUE(network_.endpoint(0).poll(offer)) << "what the stage sends leaves at once";
}

}  // namespace
}  // namespace sluice::host
