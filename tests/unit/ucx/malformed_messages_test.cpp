#include <dlpack/dlpack.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "raw_sender.hpp"
#include "sluice/error.hpp"
#include "sluice/host/slot_buffers.hpp"
#include "sluice/ucx/message_header.hpp"
#include "sluice/ucx/message_plane.hpp"

/// What a message plane does with messages that no rank of the job may send.
namespace sluice::ucx {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::uint64_t kJob = 77;
constexpr std::uint32_t kRun = 4;

TensorShape floats(std::int64_t elements) {
  TensorShape shape;
  shape.dtype_code = kDLFloat;
  shape.dtype_bits = 32;
  shape.rank = 1;
  shape.extent[0] = elements;
  return shape;
}

PlaneOptions options_of_job() {
  PlaneOptions options;
  options.job = kJob;
  return options;
}

/// Rank 0, the first stage, and somebody who says to be rank 1.
class MalformedMessages : public ::testing::Test {
 protected:
  /// UCX connects the two with the first message, in its own time.
  MalformedMessages() {
    send(good(), {floats(3)}, 12);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    Offer offer;
    while (!transport_->poll(offer) && std::chrono::steady_clock::now() < until) sender_.progress();
    transport_->accept(offer, 0);
    Arrival arrival;
    bool arrived = false;
    while (!(arrived && sender_.done()) && std::chrono::steady_clock::now() < until) {
      arrived |= transport_->poll(arrival);
      sender_.progress();
    }
  }
  ~MalformedMessages() override { plane_.abandon(); }

  /// A gradient with three floats, as rank 1 may send it.
  static MessageHeader good() { return {kJob, kRun, 1, {0, 2, 0, Direction::Gradient}, 0, 1}; }

  void send(const MessageHeader& header, const std::vector<TensorShape>& shapes, std::size_t payload,
            bool rendezvous = true, MessageKind kind = MessageKind::Pipeline) {
    std::vector<std::byte> bytes;
    encode(header, shapes, bytes);
    sender_.send(static_cast<unsigned>(kind), bytes, payload, rendezvous);
  }

  /// What the plane says; empty if it has nothing to say.
  std::string verdict() {
    std::string said;
    for (int turn = 0; turn < 2000; ++turn) {
      sender_.progress();
      try {
        plane_.progress();
      } catch (const ProtocolError& error) {
        said = error.what();
      }
    }
    return said;
  }

  /// The message is refused and given back, and the plane goes on.
  void expect_refused(const std::string& reason) {
    EXPECT_THAT(verdict(), AllOf(HasSubstr(reason), HasSubstr("rank 0: "), HasSubstr("of rank 1")));
    EXPECT_TRUE(sender_.done());
    Offer offer;
    EXPECT_FALSE(transport_->poll(offer));
    send(good(), {floats(3)}, 12);
    EXPECT_EQ(verdict(), "");
    EXPECT_TRUE(transport_->poll(offer));
    EXPECT_EQ(offer.id, good().id);
  }

  LonelyBootstrap bootstrap_;
  Pipeline pipeline_ = Pipeline::chain(3, 4);
  MessagePlane plane_{bootstrap_, options_of_job()};
  host::SlotBuffers buffers_{pipeline_, 0, 4};
  std::unique_ptr<Transport> transport_ = plane_.transport(kRun, pipeline_, 0, {0, 1, 1}, &buffers_);
  RawSender sender_{bootstrap_.address()};
};

TEST_F(MalformedMessages, AGoodOneIsOffered) {
  send(good(), {floats(3)}, 12);
  EXPECT_EQ(verdict(), "");
  Offer offer;
  ASSERT_TRUE(transport_->poll(offer));
  EXPECT_EQ(offer.bytes, 12U);
  transport_->accept(offer, 1);
  EXPECT_EQ(verdict(), "");
  Arrival arrival;
  EXPECT_TRUE(transport_->poll(arrival));
  EXPECT_TRUE(sender_.done());
}

TEST_F(MalformedMessages, OfAnotherJob) {
  MessageHeader header = good();
  header.job = kJob + 1;
  send(header, {floats(3)}, 12);
  expect_refused("another job");
}

TEST_F(MalformedMessages, OfARankThatDoesNotExist) {
  MessageHeader header = good();
  header.source = 2;
  send(header, {floats(3)}, 12);
  EXPECT_THAT(verdict(), AllOf(HasSubstr("of rank 2"), HasSubstr("no such rank")));
  EXPECT_TRUE(sender_.done());
}

TEST_F(MalformedMessages, OfAnEdgeThatDoesNotExist) {
  MessageHeader header = good();
  header.id.edge = 2;
  send(header, {floats(3)}, 12);
  expect_refused("no such edge");
}

TEST_F(MalformedMessages, OfAMicrobatchThatDoesNotExist) {
  MessageHeader header = good();
  header.id.microbatch = 4;
  send(header, {floats(3)}, 12);
  expect_refused("no such microbatch");
}

TEST_F(MalformedMessages, OfAnEdgeThatEndsElsewhere) {
  MessageHeader header = good();
  header.id.edge = 1;
  send(header, {floats(3)}, 12);
  expect_refused("does not end here");
}

TEST_F(MalformedMessages, InTheWrongDirection) {
  MessageHeader header = good();
  header.id.direction = Direction::Activation;
  send(header, {floats(3)}, 12);
  expect_refused("does not end here");
}

TEST_F(MalformedMessages, OfARankThatDoesNotOwnTheOtherEnd) {
  MessageHeader header = good();
  header.source = 0;
  send(header, {floats(3)}, 12);
  EXPECT_THAT(verdict(), AllOf(HasSubstr("of rank 0"), HasSubstr("rank 1 owns its other end")));
}

TEST_F(MalformedMessages, WithAPayloadOfAnotherLength) {
  send(good(), {floats(4)}, 12);
  expect_refused("its payload has 12 bytes, its tensors have 16");
}

TEST_F(MalformedMessages, WithoutTheAnnouncedPayload) {
  send(good(), {floats(3)}, 0, false);
  expect_refused("its payload has 0 bytes, its tensors have 12");
}

TEST_F(MalformedMessages, WithAPayloadSentWithoutAdmission) {
  send(good(), {floats(3)}, 12, false);
  expect_refused("not held back");
}

TEST_F(MalformedMessages, WithAHeaderThatIsCutShort) {
  std::vector<std::byte> bytes;
  encode(good(), std::vector{floats(3)}, bytes);
  bytes.resize(bytes.size() - 1);
  sender_.send(static_cast<unsigned>(MessageKind::Pipeline), bytes, 12, true);
  expect_refused("ends before its tensors");
}

TEST_F(MalformedMessages, OfAnotherProgram) {
  const std::vector<std::byte> bytes(100, std::byte{0x55});
  for (const MessageKind kind : {MessageKind::Pipeline, MessageKind::Taken}) {
    sender_.send(static_cast<unsigned>(kind), bytes, 12, true);
    EXPECT_THAT(verdict(), HasSubstr("not of Sluice"));
    EXPECT_TRUE(sender_.done());
  }
}

TEST_F(MalformedMessages, WithoutAHeader) {
  for (const MessageKind kind :
       {MessageKind::Pipeline, MessageKind::Taken, MessageKind::Channel, MessageKind::Leaving}) {
    sender_.send(static_cast<unsigned>(kind), {}, 12, kind == MessageKind::Pipeline);
    EXPECT_THAT(verdict(), HasSubstr("header has 0 bytes"));
    EXPECT_TRUE(sender_.done());
  }
}

TEST_F(MalformedMessages, MoreThanTwoIterationsHave) {
  for (int i = 0; i < 8; ++i) send(good(), {floats(3)}, 12);
  EXPECT_EQ(verdict(), "");
  send(good(), {floats(3)}, 12);
  EXPECT_THAT(verdict(), HasSubstr("more messages are in flight than two iterations have"));
}

TEST_F(MalformedMessages, AnswersToMessagesThatWereNotSent) {
  MessageHeader header = good();
  header.id.direction = Direction::Activation;
  for (const std::uint32_t token : {0U, 1U << 31U}) {
    header.token = token;
    header.tensors = 0;
    send(header, {}, 0, false, MessageKind::Taken);
    EXPECT_THAT(verdict(), HasSubstr("answers a message that was not sent"));
  }
}

TEST_F(MalformedMessages, OfARunThatHasEndedAreDropped) {
  transport_.reset();
  send(good(), {floats(3)}, 12);
  EXPECT_EQ(verdict(), "");
  EXPECT_TRUE(sender_.done());
}

class MalformedGroupMessages : public MalformedMessages {
 protected:
  void say(const ChannelHeader& header, std::size_t length) {
    std::array<std::byte, kChannelHeaderBytes> bytes{};
    encode(header, bytes);
    sender_.send(static_cast<unsigned>(MessageKind::Channel), bytes, length, false);
  }

  std::unique_ptr<agree::GroupChannel> channel_ = plane_.channel(kRun, {0, 1}, 16);
};

TEST_F(MalformedGroupMessages, AGoodOneArrives) {
  say({kJob, kRun, 1, 0}, 16);
  EXPECT_EQ(verdict(), "");
  std::uint32_t from = 0;
  std::span<const std::byte> message;
  ASSERT_TRUE(channel_->poll(from, message));
  EXPECT_EQ(from, 1U);
  EXPECT_EQ(message.size(), 16U);
}

TEST_F(MalformedGroupMessages, OfAnotherJob) {
  say({kJob + 1, kRun, 1, 0}, 16);
  EXPECT_THAT(verdict(), AllOf(HasSubstr("rank 1"), HasSubstr("another job")));
}

TEST_F(MalformedGroupMessages, OfARankThatIsNotOfTheGroup) {
  say({kJob, kRun, 0, 0}, 16);
  EXPECT_THAT(verdict(), HasSubstr("not of the group"));
  say({kJob, kRun, 2, 0}, 16);
  EXPECT_THAT(verdict(), HasSubstr("no such rank"));
}

TEST_F(MalformedGroupMessages, ThatAreTooLong) {
  say({kJob, kRun, 1, 0}, 17);
  EXPECT_THAT(verdict(), HasSubstr("it has 17 bytes, at most 16 are expected"));
}

TEST_F(MalformedGroupMessages, ThatComeTwiceOrOutOfSequence) {
  say({kJob, kRun, 1, 3}, 1);
  EXPECT_EQ(verdict(), "");
  say({kJob, kRun, 1, 3}, 1);
  EXPECT_THAT(verdict(), HasSubstr("it came twice"));
  say({kJob, kRun, 1, std::uint64_t{1} << 40U}, 1);
  EXPECT_THAT(verdict(), HasSubstr("out of sequence"));
  say({kJob, kRun, 1, ~std::uint64_t{0}}, 1);
  EXPECT_THAT(verdict(), HasSubstr("out of sequence"));
}

TEST_F(MalformedGroupMessages, AreFetchedInTheOrderTheyWereSentIn) {
  for (const std::uint64_t sequence : {2, 40, 1, 39}) say({kJob, kRun, 1, sequence}, sequence % 16);
  EXPECT_EQ(verdict(), "");
  std::uint32_t from = 0;
  std::span<const std::byte> message;
  EXPECT_FALSE(channel_->poll(from, message));
  for (std::uint64_t sequence = 0; sequence < 39; ++sequence) {
    if (sequence != 1 && sequence != 2) say({kJob, kRun, 1, sequence}, sequence % 16);
  }
  EXPECT_EQ(verdict(), "");
  for (std::uint64_t sequence = 0; sequence <= 40; ++sequence) {
    ASSERT_TRUE(channel_->poll(from, message)) << sequence;
    EXPECT_EQ(message.size(), sequence % 16);
  }
  EXPECT_FALSE(channel_->poll(from, message));
}

}  // namespace
}  // namespace sluice::ucx
