#include "sluice/recorder.hpp"

#include <gtest/gtest.h>

#include <array>
#include <map>

#include "hand_rank.hpp"
#include "sluice/error.hpp"

namespace sluice::test {
namespace {

Event numbered(std::int64_t number) {
  return Event::of(EventKind::Sent, Time{number}, MessageId{1, 2, 3, Direction::Gradient}, number);
}

TEST(Recorder, RoomIsRoundedUpToAPowerOfTwo) {
  EXPECT_EQ(Recorder(0).room(), 1U);
  EXPECT_EQ(Recorder(5).room(), 8U);
  EXPECT_EQ(Recorder(8).room(), 8U);
}

TEST(Recorder, KeepsTheNewestInOrderAndCountsWhatItLost) {
  Recorder recorder(4);
  EXPECT_EQ(recorder.size(), 0U);
  for (std::int64_t i = 0; i < 3; ++i) recorder.record(numbered(i));
  ASSERT_EQ(recorder.size(), 3U);
  EXPECT_EQ(recorder.lost(), 0U);
  EXPECT_EQ(recorder[0].value, 0);
  for (std::int64_t i = 3; i < 10; ++i) recorder.record(numbered(i));
  ASSERT_EQ(recorder.size(), 4U);
  EXPECT_EQ(recorder.lost(), 6U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(recorder[i].value, static_cast<std::int64_t>(6 + i));
  recorder.clear();
  EXPECT_EQ(recorder.size(), 0U);
  EXPECT_EQ(recorder.lost(), 0U);
  recorder.record(numbered(42));
  EXPECT_EQ(recorder[0].value, 42);
}

TEST(Event, HoldsAWholeTaskOrAMessage) {
  const Task task{1U << 23U, 65535, Pass::Backward};
  const Event ran = Event::of(EventKind::Ran, Time{9}, ~std::uint64_t{0}, task, true, 7);
  EXPECT_EQ(ran.task(), task);
  EXPECT_TRUE(ran.whole());
  EXPECT_EQ(ran.started(), Time{7});
  EXPECT_EQ(ran.iteration, ~std::uint64_t{0});
  EXPECT_FALSE(Event::of(EventKind::Ran, Time{9}, 0, task, false).whole());
  const MessageId id{5, 6, 7, Direction::Gradient};
  const Event arrived = Event::of(EventKind::Arrived, Time{1}, id, 3);
  EXPECT_EQ(arrived.message(), id);
  EXPECT_EQ(arrived.slot(), 3U);
}

std::vector<EventKind> kinds(const Recorder& recorder, std::size_t from = 0) {
  std::vector<EventKind> all;
  for (std::size_t i = from; i < recorder.size(); ++i) all.push_back(recorder[i].kind);
  return all;
}

using enum EventKind;

DispatcherConfig recording(StageId stage, std::uint32_t limit, Recorder& recorder) {
  DispatcherConfig config = stage_config(stage, limit);
  config.recorder = &recorder;
  return config;
}

TEST(RecordingDispatcher, WritesDownALifeOfAMicrobatch) {
  Recorder recorder(64);
  HandRank rank(Pipeline::chain(3, 1), recording(1, 8, recorder));
  rank.begin();
  rank.activation(0);
  rank.finish();
  rank.gradient(0);
  rank.finish();
  EXPECT_EQ(kinds(recorder),
            (std::vector{IterationBegin, Offered, Accepted, Arrived, Launched, Ran, Noticed, Sent, SendDone,
                         Offered, Accepted, Arrived, Launched, Ran, Noticed, Sent, SendDone, IterationEnd}));
  EXPECT_EQ(recorder[4].task(), forward(0, 1));
  EXPECT_EQ(recorder[12].task(), backward(0, 1));
  EXPECT_TRUE(recorder[12].whole());
  EXPECT_EQ(recorder[15].message(), (MessageId{0, 0, 0, Direction::Gradient}));
}

TEST(RecordingDispatcher, AnOfferHeldByTheLimitIsAcceptedLater) {
  Recorder recorder(64);
  HandRank rank(Pipeline::chain(3, 3), recording(1, 1, recorder));
  rank.begin();
  rank.activation(0);
  const std::size_t before = recorder.size();
  rank.activation(1);
  EXPECT_EQ(kinds(recorder, before), (std::vector{Offered}));
}

/// A group that takes its time.
class SlowAgreement final : public Agreement {
 public:
  void begin(const Iteration& /*iteration*/, const Arbiter& /*arbiter*/) override {}
  void announce(std::span<const RunnableChange> /*changes*/) override {}
  [[nodiscard]] std::optional<Task> poll(const Arbiter& arbiter, PassMask allowed) override {
    return agreed ? arbiter.candidate(allowed) : std::nullopt;
  }
  bool agreed = false;
};

class CountedClock final : public Clock {
 public:
  [[nodiscard]] Time now() const override { return Time{++readings}; }
  mutable std::int64_t readings = 0;
};

/// A source that can always run, and no messages.
struct Alone {
  explicit Alone(Recorder* recorder) {
    config.recorder = recorder;
    dispatcher.emplace(pipeline, config, Policy::readiness(Hint::named("bf", pipeline, 0)),
                       Seams{executor, transport, agreement, clock});
    dispatcher->begin({});
  }

  struct Device final : Executor {
    [[nodiscard]] std::uint32_t room(Lane /*lane*/) const override { return 1; }
    void launch(const Launch& /*launch*/) override {}
    bool poll(Done& /*done*/) override { return false; }
    [[nodiscard]] Time next_deadline() const override { return kNever; }
  };
  struct Silence final : Transport {
    bool poll(Offer& /*offer*/) override { return false; }
    void accept(const Offer& /*offer*/, Slot /*slot*/) override {}
    bool poll(Arrival& /*arrival*/) override { return false; }
    void send(const MessageId& /*id*/, Slot /*slot*/) override {}
    bool poll(struct SendDone& /*done*/) override { return false; }
    [[nodiscard]] Time next_deadline() const override { return kNever; }
  };

  Pipeline pipeline = Pipeline::chain(1, 3);
  Device executor;
  Silence transport;
  SlowAgreement agreement;
  CountedClock clock;
  DispatcherConfig config;
  std::optional<Dispatcher> dispatcher;
};

TEST(RecordingDispatcher, AWaitForTheGroupIsWrittenDownOnce) {
  Recorder recorder(64);
  Alone rank(&recorder);
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(rank.dispatcher->progress());
  EXPECT_EQ(kinds(recorder), (std::vector{IterationBegin, Asked}));
  EXPECT_EQ(recorder[1].task(), forward(0));
}

TEST(RecordingDispatcher, ReadsTheClockOnceForAllThatOneProgressDoes) {
  Recorder recorder(64);
  Alone rank(&recorder);
  rank.agreement.agreed = true;
  const std::int64_t before = rank.clock.readings;
  rank.dispatcher->progress();
  EXPECT_GT(kinds(recorder).size(), 2U);
  EXPECT_EQ(rank.clock.readings, before + 1);
}

TEST(RecordingDispatcher, WithoutARecorderTheClockIsNotRead) {
  Alone rank(nullptr);
  rank.agreement.agreed = true;
  rank.dispatcher->progress();
  EXPECT_EQ(rank.clock.readings, 0);
}

}  // namespace
}  // namespace sluice::test
