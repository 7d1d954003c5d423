#include "sluice/ucx/listener_bootstrap.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "sluice/error.hpp"
#include "sluice/process/launcher.hpp"
#include "sluice/ucx/message_plane.hpp"

namespace sluice::ucx {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A port of this host that a socket holds.
class Port {
 public:
  Port() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    socklen_t length = sizeof address;
    bind(socket_, reinterpret_cast<const sockaddr*>(&address), length);
    getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length);
    number_ = ntohs(address.sin_port);
    listen(socket_, 1);
  }
  ~Port() { close(socket_); }
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  [[nodiscard]] std::uint16_t number() const noexcept { return number_; }

 private:
  int socket_;
  std::uint16_t number_ = 0;
};

using process::free_port;

process::ProcessPlace place(std::uint32_t rank, std::uint32_t ranks, std::uint16_t port) {
  process::ProcessPlace place;
  place.rank = rank;
  place.ranks = ranks;
  place.host = "localhost";
  place.port = port;
  return place;
}

std::vector<std::byte> word(std::uint32_t rank, std::uint32_t round, std::size_t length) {
  return std::vector<std::byte>(length, static_cast<std::byte>(16 * rank + round));
}

/// What each process ends with: an error's text, or nothing.
std::vector<std::string> errors_of(const std::vector<process::ProcessPlace>& places, Duration timeout,
                                   const std::function<void(ListenerBootstrap&)>& work) {
  std::vector<std::string> errors(places.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < places.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        ListenerBootstrap bootstrap(places[i], timeout);
        work(bootstrap);
      } catch (const Error& error) {
        errors[i] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

TEST(ListenerBootstrap, EverybodyGetsEverybodysBytesInOrder) {
  constexpr std::uint32_t kRanks = 4;
  const std::uint16_t port = free_port();
  std::vector<process::ProcessPlace> places;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) places.push_back(place(rank, kRanks, port));
  const auto errors = errors_of(places, 30s, [&](ListenerBootstrap& bootstrap) {
    EXPECT_EQ(bootstrap.ranks(), kRanks);
    EXPECT_EQ(bootstrap.host(), "localhost");
    for (std::uint32_t round = 0; round < 10; ++round) {
      // From nothing to more than one packet, and not the same for all.
      const auto length = [&](std::uint32_t rank) { return std::size_t{round} * round * (1000 * rank + 1); };
      const auto all = bootstrap.all_gather(word(bootstrap.rank(), round, length(bootstrap.rank())));
      ASSERT_EQ(all.size(), kRanks);
      for (std::uint32_t rank = 0; rank < kRanks; ++rank)
        EXPECT_EQ(all[rank], word(rank, round, length(rank))) << rank;
    }
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(ListenerBootstrap, OneRankMeetsItself) {
  ListenerBootstrap bootstrap(place(0, 1, free_port()), 10s);
  const auto all = bootstrap.all_gather(word(0, 1, 5));
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0], word(0, 1, 5));
}

TEST(ListenerBootstrap, RankZeroMayComeLast) {
  const std::uint16_t port = free_port();
  std::thread guest([&] {
    ListenerBootstrap bootstrap(place(1, 2, port), 30s);
    EXPECT_EQ(bootstrap.all_gather(word(1, 0, 3)).size(), 2U);
  });
  // Several refused connections, without which the test shows less but still passes.
  std::this_thread::sleep_for(200ms);
  ListenerBootstrap bootstrap(place(0, 2, port), 30s);
  EXPECT_EQ(bootstrap.all_gather(word(0, 0, 3)).at(1), word(1, 0, 3));
  guest.join();
}

TEST(ListenerBootstrap, ConnectsMessagePlanes) {
  const std::uint16_t port = free_port();
  const auto errors =
      errors_of({place(0, 2, port), place(1, 2, port)}, 30s, [](ListenerBootstrap& bootstrap) {
        MessagePlane plane(bootstrap, {});
        const auto channel = plane.channel(1, {0, 1}, 8);
        channel->send(1 - channel->member(), word(bootstrap.rank(), 0, 8));
        std::uint32_t from = 0;
        std::span<const std::byte> message;
        const auto until = std::chrono::steady_clock::now() + 30s;
        while (!channel->poll(from, message) && std::chrono::steady_clock::now() < until) {
        }
        EXPECT_EQ(std::vector(message.begin(), message.end()), word(from, 0, 8));
      });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(ListenerBootstrap, SaysThatThePortIsInUse) {
  const Port port;
  try {
    ListenerBootstrap bootstrap(place(0, 2, port.number()), 5s);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("localhost:" + std::to_string(port.number())),
                                    HasSubstr("the port is in use")));
  }
}

TEST(ListenerBootstrap, NamesTheRanksThatDoNotCome) {
  const std::uint16_t port = free_port();
  const auto errors = errors_of({place(0, 4, port), place(2, 4, port)}, 500ms, [](ListenerBootstrap&) {});
  for (const std::string& error : errors) {
    EXPECT_THAT(error, AllOf(HasSubstr("1, 3 did not come within 0.5 s"),
                             HasSubstr("localhost:" + std::to_string(port))));
  }
}

TEST(ListenerBootstrap, NamesTheRanksThatDoNotComeToAnExchange) {
  const std::uint16_t port = free_port();
  const auto errors = errors_of({place(0, 3, port), place(1, 3, port), place(2, 3, port)}, 1s,
                                [](ListenerBootstrap& bootstrap) {
                                  if (bootstrap.rank() == 2) return std::this_thread::sleep_for(2500ms);
                                  bootstrap.all_gather(word(0, 0, 1));
                                });
  for (const std::size_t rank : {0U, 1U})
    EXPECT_THAT(errors[rank], HasSubstr("2 did not come to the exchange"));
}

TEST(ListenerBootstrap, NamesARankThatHasGone) {
  const std::uint16_t port = free_port();
  const auto errors = errors_of({place(0, 3, port), place(1, 3, port), place(2, 3, port)}, 20s,
                                [](ListenerBootstrap& bootstrap) {
                                  if (bootstrap.rank() != 2) bootstrap.all_gather(word(0, 0, 1));
                                });
  for (const std::size_t rank : {0U, 1U}) EXPECT_THAT(errors[rank], HasSubstr("rank 2 has gone"));
}

TEST(ListenerBootstrap, SaysThatRankZeroDoesNotAnswer) {
  const std::uint16_t port = free_port();
  const auto errors = errors_of({place(1, 2, port)}, 300ms, [](ListenerBootstrap&) {});
  EXPECT_THAT(errors[0], AllOf(HasSubstr("rank 1: rank 0 at localhost:" + std::to_string(port)),
                               HasSubstr("does not answer")));
}

TEST(ListenerBootstrap, RefusesTwoProcessesOfOneRank) {
  const std::uint16_t port = free_port();
  const auto errors =
      errors_of({place(0, 3, port), place(1, 3, port), place(1, 3, port)}, 20s, [](ListenerBootstrap&) {});
  for (const std::string& error : errors) EXPECT_THAT(error, HasSubstr("two processes are rank 1"));
}

TEST(ListenerBootstrap, RefusesAnotherNumberOfRanks) {
  const std::uint16_t port = free_port();
  const auto errors = errors_of({place(0, 3, port), place(1, 4, port)}, 20s, [](ListenerBootstrap&) {});
  for (const std::string& error : errors)
    EXPECT_THAT(error, HasSubstr("rank 1 was started with 4 ranks, rank 0 with 3"));
}

TEST(ListenerBootstrap, RefusesWhatCannotBe) {
  EXPECT_THROW(ListenerBootstrap(place(2, 2, 1234), 1s), ConfigError);
  EXPECT_THROW(ListenerBootstrap(place(0, 0, 1234), 1s), ConfigError);
  EXPECT_THROW(ListenerBootstrap(place(0, 2, 0), 1s), ConfigError);
  process::ProcessPlace unknown = place(1, 2, 1234);
  unknown.host = "no such host";
  EXPECT_THROW(ListenerBootstrap(unknown, 1s), ConfigError);
}

}  // namespace
}  // namespace sluice::ucx
