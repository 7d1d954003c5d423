#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "memory_bootstrap.hpp"
#include "sluice/error.hpp"
#include "sluice/process/control_frame.hpp"
#include "sluice/process/control_plane.hpp"

namespace sluice::process {
namespace {

using namespace std::chrono_literals;
using test::MeetingPlace;
using test::MemoryBootstrap;
using testing::HasSubstr;

/// A bare connection to the hub's port.
class Raw {
 public:
  explicit Raw(std::uint16_t port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval limit{30, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("a stranger cannot connect");
  }
  ~Raw() { close(socket_); }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;

  void send(const Bytes& bytes) const { ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  /// The next frame of the type; frames of others are skipped. Throws if there is none.
  Frame expect(FrameType type) {
    while (true) {
      while (auto frame = reader_.next()) {
        if (frame->type == type) return *frame;
      }
      Bytes buffer(4096);
      const ssize_t count = recv(socket_, buffer.data(), buffer.size(), 0);
      if (count <= 0) throw std::runtime_error("the hub closed or says nothing");
      reader_.append(std::span(buffer).first(static_cast<std::size_t>(count)));
    }
  }
  /// The other end has closed.
  [[nodiscard]] bool closed() const {
    std::byte one{};
    while (true) {
      const ssize_t count = recv(socket_, &one, 1, 0);
      if (count == 0) return true;
      if (count < 0) return errno == ECONNRESET;
    }
  }

 private:
  int socket_;
  FrameReader reader_;
};

/// A hub of `ranks` ranks on a thread, and what it tells of where it listens.
class Hub {
 public:
  explicit Hub(std::uint32_t ranks, ControlOptions options = {}) : place_(ranks) {
    thread_ = std::thread([this, options] {
      MemoryBootstrap bootstrap(place_, 0);
      try {
        ControlPlane plane(bootstrap, options);
        for (int i = 0; i < 6000 && !plane.failed() && !over_; ++i) std::this_thread::sleep_for(5ms);
        cause_ = plane.failed() ? plane.failure()->cause : "calm";
      } catch (const std::exception& error) {
        cause_ = std::string("thrown: ") + error.what();
      }
    });
  }
  ~Hub() { (void)cause(); }
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  /// What all ranks but 0 must call, each once.
  Hello meet(std::uint32_t rank) {
    FrameReader reader;
    reader.append(MemoryBootstrap(place_, rank).all_gather({}).at(0));
    return decode_hello(reader.next().value());
  }
  [[nodiscard]] MeetingPlace& place() { return place_; }
  /// Ends the hub if it still runs.
  std::string cause() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
    return cause_;
  }
  /// Once the run has failed.
  std::string failure() {
    thread_.join();
    return cause_;
  }

 private:
  MeetingPlace place_;
  std::atomic<bool> over_{false};
  std::string cause_;
  std::thread thread_;
};

Bytes noise(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
  return bytes;
}

/// What rank 1 of 2 must not send; says of what the hub complains.
std::string after_sending(const Bytes& bytes) {
  Hub hub(2);
  const Hello meeting = hub.meet(1);
  Raw rank(static_cast<std::uint16_t>(meeting.rank));
  rank.send(encode(Hello{meeting.token, 1}));
  (void)rank.expect(FrameType::Welcome);
  rank.send(bytes);
  std::string told = decode_failure(rank.expect(FrameType::Failed), 2).cause;
  EXPECT_EQ(hub.failure(), told);
  return told;
}

TEST(ControlPlaneStrangers, DoNotDisturbRanksThatConnect) {
  Hub hub(2);
  const Hello meeting = hub.meet(1);
  const auto port = static_cast<std::uint16_t>(meeting.rank);
  const Raw silent(port);
  const Raw noisy(port);
  noisy.send(noise(100000));
  const Raw wrong_token(port);
  wrong_token.send(encode(Hello{meeting.token + 1, 1}));
  const Raw wrong_rank(port);
  wrong_rank.send(encode(Hello{meeting.token, 7}));
  const Raw in_the_name_of_the_hub(port);
  in_the_name_of_the_hub.send(encode(Hello{meeting.token, 0}));
  const Raw impolite(port);
  impolite.send(encode(Heartbeat{}));
  { const Raw brief(port); }
  Raw half(port);
  const Bytes hello = encode(Hello{meeting.token, 1});
  half.send({hello.begin(), hello.begin() + 7});
  EXPECT_TRUE(noisy.closed());
  EXPECT_TRUE(wrong_token.closed());
  EXPECT_TRUE(wrong_rank.closed());
  EXPECT_TRUE(in_the_name_of_the_hub.closed());
  EXPECT_TRUE(impolite.closed());
  half.send({hello.begin() + 7, hello.end()});
  (void)half.expect(FrameType::Welcome);
  EXPECT_TRUE(silent.closed()) << "nobody else is needed";
  half.send(encode(FrameType::Goodbye));
  EXPECT_EQ(hub.cause(), "calm");
}

TEST(ControlPlaneStrangers, MoreThanAHubKeepsCannotShutARankOut) {
  Hub hub(2);
  const Hello meeting = hub.meet(1);
  const auto port = static_cast<std::uint16_t>(meeting.rank);
  std::vector<std::unique_ptr<Raw>> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(std::make_unique<Raw>(port));
  Raw rank(port);
  rank.send(encode(Hello{meeting.token, 1}));
  (void)rank.expect(FrameType::Welcome);
  rank.send(encode(FrameType::Goodbye));
  EXPECT_EQ(hub.cause(), "calm");
}

TEST(ControlPlaneStrangers, ARankComesOnlyOnce) {
  Hub hub(3);
  Hello meeting;
  std::thread other([&hub] { (void)hub.meet(2); });
  meeting = hub.meet(1);
  other.join();
  const auto port = static_cast<std::uint16_t>(meeting.rank);
  Raw first(port);
  first.send(encode(Hello{meeting.token, 1}));
  (void)first.expect(FrameType::Heartbeat);
  const Raw second(port);
  second.send(encode(Hello{meeting.token, 1}));
  EXPECT_TRUE(second.closed());
  Raw last(port);
  last.send(encode(Hello{meeting.token, 2}));
  (void)first.expect(FrameType::Welcome);
  first.send(encode(FrameType::Goodbye));
  last.send(encode(FrameType::Goodbye));
  EXPECT_EQ(hub.cause(), "calm");
}

TEST(ControlPlaneGarbage, IsAFailureThatNamesItsSender) {
  EXPECT_THAT(after_sending(noise(1000)),
              HasSubstr("rank 1 sent what cannot be understood: a control frame of type"));
  EXPECT_THAT(
      after_sending(Bytes{std::byte{0xff}, std::byte{0xff}, std::byte{0xff}, std::byte{0xff}, std::byte{4}}),
      HasSubstr("a control frame of type 4 and 4294967295 bytes"));
  EXPECT_THAT(after_sending(encode(FrameType::Welcome)), HasSubstr("which only the hub sends"));
  EXPECT_THAT(after_sending(encode(Hello{})), HasSubstr("rank 1 sent what cannot be understood"));
  EXPECT_THAT(after_sending(encode_gather(5, {})), HasSubstr("its share of exchange 5 in exchange 0"));
  EXPECT_THAT(after_sending(encode(Failure{Failure::Kind::Failed, 9, "who?"})),
              HasSubstr("tells of a rank that does not exist"));
  EXPECT_THAT(after_sending(encode(Failure{static_cast<Failure::Kind>(9), 1, "what?"})),
              HasSubstr("tells of no known kind of failure"));
}

TEST(ControlPlaneGarbage, TwoSharesOfOneExchange) {
  Bytes twice = encode_gather(0, {});
  const Bytes again = twice;
  twice.insert(twice.end(), again.begin(), again.end());
  EXPECT_THAT(after_sending(twice), HasSubstr("its share of exchange 0 in exchange 0"));
}

TEST(ControlPlaneConnecting, APeerThatNeverComesIsNamedOnEveryRank) {
  ControlOptions options;
  options.connect_timeout = 300ms;
  Hub hub(4, options);
  std::vector<std::thread> absent;
  for (const std::uint32_t rank : {2U, 3U}) absent.emplace_back([&hub, rank] { (void)hub.meet(rank); });
  std::string told;
  std::thread present([&] {
    MemoryBootstrap bootstrap(hub.place(), 1);
    try {
      const ControlPlane plane(bootstrap, options);
    } catch (const Error& error) {
      told = error.what();
    }
  });
  for (std::thread& thread : absent) thread.join();
  present.join();
  EXPECT_EQ(told, "rank 2 and rank 3 did not come within 0.3 s");
  EXPECT_EQ(hub.failure(), "thrown: rank 2 and rank 3 did not come within 0.3 s");
}

TEST(ControlPlaneConnecting, AHubThatIsGoneIsAnError) {
  MeetingPlace place(2);
  std::thread gone([&place] {
    // A port that was free a moment ago.
    MemoryBootstrap(place, 0).all_gather(encode(Hello{1, 1}));
  });
  MemoryBootstrap bootstrap(place, 1);
  std::string told;
  try {
    const ControlPlane plane(bootstrap, {});
  } catch (const Error& error) {
    told = error.what();
  }
  gone.join();
  EXPECT_EQ(told, "127.0.0.1 port 1 cannot be reached: Connection refused");
}

TEST(ControlPlaneConnecting, AHubThatDoesNotSayWhereItIs) {
  for (const Bytes& said : {Bytes{}, noise(40), encode(FrameType::Welcome)}) {
    MeetingPlace place(2);
    std::thread hub([&] { MemoryBootstrap(place, 0).all_gather(said); });
    MemoryBootstrap bootstrap(place, 1);
    EXPECT_THROW(ControlPlane(bootstrap, {}), Error);
    hub.join();
  }
}

}  // namespace
}  // namespace sluice::process
