#include "sluice/torch/tcp_store_bootstrap.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sluice/error.hpp"
#include "sluice/process/launcher.hpp"

namespace sluice::gpt {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr milliseconds kShort{700};

/// A port of the loopback interface that is in use.
class TakenPort {
 public:
  TakenPort() : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    socklen_t size = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(descriptor_, generic, size), 0);
    EXPECT_EQ(::listen(descriptor_, 1), 0);
    EXPECT_EQ(::getsockname(descriptor_, generic, &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~TakenPort() { ::close(descriptor_); }
  TakenPort(const TakenPort&) = delete;
  TakenPort& operator=(const TakenPort&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  int descriptor_;
  std::uint16_t port_ = 0;
};

using process::free_port;

TcpStoreSettings settings_of(std::uint32_t rank, std::uint32_t ranks, std::uint16_t port) {
  TcpStoreSettings settings;
  settings.rank = rank;
  settings.ranks = ranks;
  settings.host = "127.0.0.1";
  settings.port = port;
  settings.timeout = std::chrono::seconds(30);
  return settings;
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string gathered(TcpStoreBootstrap& bootstrap, const std::string& own) {
  std::string all;
  for (const std::vector<std::byte>& bytes : bootstrap.all_gather(bytes_of(own))) {
    all += std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) + ";";
  }
  return all;
}

/// What joining the run comes to: `joined`, or the error's text.
std::future<std::string> joining(TcpStoreSettings settings) {
  return std::async(std::launch::async, [settings = std::move(settings)]() -> std::string {
    try {
      const TcpStoreBootstrap bootstrap(settings);
      return "joined";
    } catch (const Error& error) {
      return error.what();
    }
  });
}

/// Sets variables of the environment for the time of a test; a null value removes the variable.
class Environment {
 public:
  using Variables = std::vector<std::pair<const char*, const char*>>;

  explicit Environment(const Variables& variables) {
    for (const auto& [name, value] : variables) {
      const char* before = std::getenv(name);
      before_.emplace_back(name, before != nullptr ? std::make_unique<std::string>(before) : nullptr);
      set(name, value);
    }
  }
  Environment(const char* name, const char* value) : Environment(Variables{{name, value}}) {}
  ~Environment() {
    for (const auto& [name, value] : before_) set(name, value ? value->c_str() : nullptr);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  static void set(const char* name, const char* value) {
    if (value != nullptr) {
      ::setenv(name, value, 1);
    } else {
      ::unsetenv(name);
    }
  }

  std::vector<std::pair<const char*, std::unique_ptr<std::string>>> before_;
};

Environment::Variables of_torchrun() {
  return {{"RANK", "2"},
          {"WORLD_SIZE", "4"},
          {"MASTER_ADDR", "node0"},
          {"MASTER_PORT", "29500"},
          {"TORCHELASTIC_USE_AGENT_STORE", nullptr},
          {"TORCHELASTIC_RUN_ID", nullptr},
          {"TORCHELASTIC_RESTART_COUNT", nullptr}};
}

TEST(TcpStoreSettings, AreReadFromTheEnvironmentOfTorchrun) {
  const Environment environment(of_torchrun());
  const TcpStoreSettings settings = TcpStoreSettings::from_environment();
  EXPECT_EQ(settings.rank, 2U);
  EXPECT_EQ(settings.ranks, 4U);
  EXPECT_EQ(settings.host, "node0");
  EXPECT_EQ(settings.port, 29500);
  EXPECT_FALSE(settings.hosts);
}

TEST(TcpStoreSettings, RankZeroServesTheStoreUnlessTheAgentDoes) {
  const Environment environment(of_torchrun());
  const Environment zero("RANK", "0");
  EXPECT_TRUE(TcpStoreSettings::from_environment().hosts);
  const Environment agent("TORCHELASTIC_USE_AGENT_STORE", "True");
  EXPECT_FALSE(TcpStoreSettings::from_environment().hosts);
}

TEST(TcpStoreSettings, ARestartOfARunIsAnotherJob) {
  const Environment environment(of_torchrun());
  const std::string plain = TcpStoreSettings::from_environment().job;
  const Environment run("TORCHELASTIC_RUN_ID", "7");
  const std::string first = TcpStoreSettings::from_environment().job;
  const Environment restart("TORCHELASTIC_RESTART_COUNT", "1");
  const std::string second = TcpStoreSettings::from_environment().job;
  EXPECT_NE(plain, first);
  EXPECT_NE(first, second);
}

TEST(TcpStoreSettings, ABadEnvironmentIsRefusedNamingTheVariable) {
  const auto refused = [](const char* name, const char* value) -> std::string {
    const Environment bad(name, value);
    try {
      (void)TcpStoreSettings::from_environment();
      return "accepted";
    } catch (const ConfigError& error) {
      return error.field();
    }
  };
  const Environment environment(of_torchrun());
  EXPECT_EQ(refused("RANK", "4"), "RANK");
  EXPECT_EQ(refused("MASTER_PORT", "65536"), "MASTER_PORT");
  EXPECT_EQ(refused("MASTER_ADDR", nullptr), "MASTER_ADDR");
  const Environment nothing({{"WORLD_SIZE", nullptr}, {"MASTER_ADDR", nullptr}, {"MASTER_PORT", nullptr}});
  EXPECT_EQ(refused("RANK", nullptr), "RANK");
}

TEST(TcpStoreBootstrap, GathersInRankOrderRoundAfterRound) {
  const TcpStoreHost store;
  std::vector<std::future<std::string>> ranks;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    ranks.push_back(std::async(std::launch::async, [&store, rank] {
      TcpStoreBootstrap bootstrap(settings_of(rank, 3, store.port()));
      std::string all;
      for (int round = 0; round < 5; ++round) {
        all += gathered(bootstrap, round == 3 ? "" : std::to_string(10 * round + static_cast<int>(rank)));
      }
      return all;
    }));
  }
  for (auto& rank : ranks) EXPECT_EQ(rank.get(), "0;1;2;10;11;12;20;21;22;;;;40;41;42;");
}

TEST(TcpStoreBootstrap, RankZeroCanServeTheStore) {
  const std::uint16_t port = free_port();
  std::vector<std::future<std::string>> ranks;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    ranks.push_back(std::async(std::launch::async, [port, rank] {
      TcpStoreSettings settings = settings_of(rank, 2, port);
      settings.hosts = rank == 0;
      TcpStoreBootstrap bootstrap(settings);
      return gathered(bootstrap, "of " + std::to_string(rank));
    }));
  }
  for (auto& rank : ranks) EXPECT_EQ(rank.get(), "of 0;of 1;");
}

TEST(TcpStoreBootstrap, KnowsItsPlace) {
  const TcpStoreHost store;
  const TcpStoreBootstrap bootstrap(settings_of(0, 1, store.port()));
  EXPECT_EQ(bootstrap.rank(), 0U);
  EXPECT_EQ(bootstrap.ranks(), 1U);
  EXPECT_EQ(bootstrap.host(), "127.0.0.1");
}

TEST(TcpStoreBootstrap, JobsOfOneStoreDoNotMeet) {
  const TcpStoreHost store;
  TcpStoreSettings one = settings_of(0, 1, store.port());
  TcpStoreSettings other = one;
  other.job = "other";
  TcpStoreBootstrap first(one);
  TcpStoreBootstrap second(other);
  EXPECT_EQ(gathered(first, "first"), "first;");
  EXPECT_EQ(gathered(second, "second"), "second;");
}

TEST(TcpStoreBootstrap, APortInUseIsNamed) {
  const TakenPort taken;
  TcpStoreSettings settings = settings_of(0, 1, taken.port());
  settings.hosts = true;
  const std::string error = joining(settings).get();
  EXPECT_EQ(error, "rank 0 cannot serve the store at 127.0.0.1:" + std::to_string(taken.port()) +
                       ": the port is in use");
}

TEST(TcpStoreBootstrap, AStoreThatNobodyServesIsNamed) {
  const std::uint16_t port = free_port();
  TcpStoreSettings settings = settings_of(1, 2, port);
  settings.timeout = kShort;
  const std::string error = joining(settings).get();
  EXPECT_EQ(error,
            "rank 1 cannot reach the store at 127.0.0.1:" + std::to_string(port) + ": nobody serves it");
}

TEST(TcpStoreBootstrap, AnUnknownHostIsNamed) {
  TcpStoreSettings settings = settings_of(1, 2, free_port());
  settings.host = "no-such-host.invalid";
  EXPECT_THAT(joining(settings).get(), HasSubstr("host no-such-host.invalid is unknown"));
}

class MissingRanks : public testing::TestWithParam<bool> {};

TEST_P(MissingRanks, AreNamedByThoseThatCame) {
  const TcpStoreHost agent;
  const bool rank_zero_serves = GetParam();
  const std::uint16_t port = rank_zero_serves ? free_port() : agent.port();
  std::vector<std::future<std::string>> ranks;
  for (const std::uint32_t rank : {0U, 2U}) {
    TcpStoreSettings settings = settings_of(rank, 5, port);
    settings.hosts = rank_zero_serves && rank == 0;
    settings.timeout = rank == 0 ? milliseconds(3000) : milliseconds(30000);
    ranks.push_back(joining(settings));
  }
  for (auto& rank : ranks) EXPECT_THAT(rank.get(), HasSubstr("ranks 1, 3, 4 did not come to 127.0.0.1:"));
}

INSTANTIATE_TEST_SUITE_P(Stores, MissingRanks, testing::Bool());

TEST(TcpStoreBootstrap, ARankThatLeavesBeforeAnExchangeIsNamed) {
  const TcpStoreHost store;
  auto leaving = joining(settings_of(1, 2, store.port()));
  TcpStoreSettings settings = settings_of(0, 2, store.port());
  settings.timeout = std::chrono::seconds(5);
  TcpStoreBootstrap bootstrap(settings);
  EXPECT_EQ(leaving.get(), "joined");
  try {
    (void)bootstrap.all_gather({});
    FAIL() << "gathered without rank 1";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 1 did not come"));
  }
}

TEST(TcpStoreBootstrap, ARankThatServedTheStoreAndLeftIsAnError) {
  const std::uint16_t port = free_port();
  TcpStoreSettings serving = settings_of(0, 2, port);
  serving.hosts = true;
  auto leaving = joining(serving);
  TcpStoreBootstrap bootstrap(settings_of(1, 2, port));
  EXPECT_EQ(leaving.get(), "joined");
  try {
    (void)bootstrap.all_gather({});
    FAIL() << "gathered without rank 0";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 1 lost the store at 127.0.0.1:" + std::to_string(port)));
  }
}

TEST(TcpStoreBootstrap, TwoProcessesOfOneRankAreRefused) {
  const TcpStoreHost store;
  auto first = joining(settings_of(1, 2, store.port()));
  auto second = joining(settings_of(1, 2, store.port()));
  EXPECT_THAT(first.get(), HasSubstr("are rank 1"));
  EXPECT_THAT(second.get(), HasSubstr("are rank 1"));
}

TEST(TcpStoreBootstrap, RanksToldOfDifferentCountsAreRefused) {
  const TcpStoreHost store;
  auto first = joining(settings_of(0, 2, store.port()));
  auto second = joining(settings_of(1, 3, store.port()));
  const std::string error = first.get();
  EXPECT_THAT(error, HasSubstr("was told of"));
  EXPECT_EQ(second.get(), error);
}

TEST(TcpStoreBootstrap, BadSettingsAreRefused) {
  EXPECT_THAT(joining(settings_of(2, 2, 1)).get(), HasSubstr("RANK: 2 is not one of 2 ranks"));
  EXPECT_THAT(joining(settings_of(0, 1, 0)).get(), HasSubstr("MASTER_PORT:"));
  TcpStoreSettings settings = settings_of(0, 1, 1);
  settings.timeout = Duration::zero();
  EXPECT_THAT(joining(settings).get(), HasSubstr("timeout:"));
}

TEST(TcpStoreHost, EachHasAPortOfItsOwn) {
  const TcpStoreHost one;
  const TcpStoreHost other;
  EXPECT_NE(one.port(), 0);
  EXPECT_NE(one.port(), other.port());
}

}  // namespace
}  // namespace sluice::gpt
