#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "sluice/error.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/process/control_plane.hpp"
#include "talking_ranks.hpp"

namespace sluice::process {
namespace {

using namespace std::chrono_literals;
using test::TalkingRanks;

constexpr std::uint32_t kRanks = 4;
constexpr int kFailed = 3;
/// Longer than a loaded machine keeps a process from running.
constexpr auto kStall = 3s;

ControlOptions with_stall(Duration stall) {
  ControlOptions options;
  options.stall_timeout = stall;
  options.connect_timeout = 60s;
  return options;
}

/// Says what failed and when, and ends as a rank of a failed run does.
int end_with_failure(const TalkingRanks::Self& self, const ControlPlane& plane) {
  for (int i = 0; i < 60000 && !plane.failed(); ++i) std::this_thread::sleep_for(1ms);
  const Time at = host::SteadyClock().now();
  const std::optional<Failure> failure = plane.failure();
  self.say(failure ? failure->cause : "no failure");
  self.say(failure ? std::to_string(static_cast<int>(failure->kind)) : "none");
  self.say(std::to_string(at.count()));
  return failure ? kFailed : 0;
}

int take_part(const TalkingRanks::Self& self, const ControlOptions& options) {
  ControlPlane plane(self.bootstrap, options);
  (void)plane.all_gather({});
  self.say("ready");
  return end_with_failure(self, plane);
}

struct Ending {
  std::string cause;
  std::string kind;
  Duration after{};
};

Ending ending_of(TalkingRanks& ranks, std::uint32_t rank, Time since) {
  Ending ending;
  ending.cause = ranks.line(rank).value_or("said nothing");
  ending.kind = ranks.line(rank).value_or("said nothing");
  ending.after = Time(std::stoll(ranks.line(rank).value_or("0"))) - since;
  EXPECT_EQ(ranks.exit_code(rank), kFailed);
  return ending;
}

std::string kind(Failure::Kind value) { return std::to_string(static_cast<int>(value)); }

TEST(ControlPlaneProcesses, AKilledRankIsNamedByAllOthers) {
  for (std::uint32_t victim = 0; victim < kRanks; ++victim) {
    TalkingRanks ranks(kRanks, [](TalkingRanks::Self& self) { return take_part(self, with_stall(60s)); });
    ASSERT_TRUE(ranks.all_say("ready"));
    const Time killed = host::SteadyClock().now();
    ranks.signal(victim, SIGKILL);
    Duration slowest{0};
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      if (rank == victim) continue;
      const Ending ending = ending_of(ranks, rank, killed);
      EXPECT_EQ(ending.cause, "rank " + std::to_string(victim) + " died (its connection closed)");
      EXPECT_EQ(ending.kind, kind(Failure::Kind::Died));
      slowest = std::max(slowest, ending.after);
    }
    RecordProperty("known_everywhere_us_" + std::to_string(victim), static_cast<int>(slowest / 1us));
  }
}

TEST(ControlPlaneProcesses, AStoppedRankIsSilent) {
  for (const std::uint32_t victim : {0U, 2U}) {
    TalkingRanks ranks(kRanks, [](TalkingRanks::Self& self) { return take_part(self, with_stall(kStall)); });
    ASSERT_TRUE(ranks.all_say("ready"));
    const Time stopped = host::SteadyClock().now();
    ranks.signal(victim, SIGSTOP);
    Duration slowest{0};
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      if (rank == victim) continue;
      const Ending ending = ending_of(ranks, rank, stopped);
      EXPECT_TRUE(ending.cause.starts_with("nothing was heard of rank " + std::to_string(victim) + " for "))
          << ending.cause;
      EXPECT_EQ(ending.kind, kind(Failure::Kind::Silent));
      slowest = std::max(slowest, ending.after);
    }
    RecordProperty("known_everywhere_ms_" + std::to_string(victim), static_cast<int>(slowest / 1ms));
  }
}

TEST(ControlPlaneProcesses, AStoppedRankInsideAnIterationIsTheOneToName) {
  TalkingRanks ranks(kRanks, [](TalkingRanks::Self& self) {
    ControlPlane plane(self.bootstrap, with_stall(kStall));
    (void)plane.all_gather({});
    plane.working(true);
    self.say("ready");
    return end_with_failure(self, plane);
  });
  ASSERT_TRUE(ranks.all_say("ready"));
  const Time stopped = host::SteadyClock().now();
  ranks.signal(2, SIGSTOP);
  for (const std::uint32_t rank : {0U, 1U, 3U}) {
    const Ending ending = ending_of(ranks, rank, stopped);
    EXPECT_TRUE(ending.cause.starts_with("nothing was heard of rank 2 for ")) << ending.cause;
  }
}

TEST(ControlPlaneProcesses, APauseShorterThanTheTimeoutIsForgiven) {
  for (const std::uint32_t victim : {0U, 1U}) {
    TalkingRanks ranks(3, [](TalkingRanks::Self& self) {
      ControlPlane plane(self.bootstrap, with_stall(20s));
      (void)plane.all_gather({});
      self.say("ready");
      for (int round = 0; round < 50; ++round) {
        (void)plane.all_gather({});
        std::this_thread::sleep_for(5ms);
      }
      return plane.failed() ? kFailed : 0;
    });
    ASSERT_TRUE(ranks.all_say("ready"));
    ranks.signal(victim, SIGSTOP);
    std::this_thread::sleep_for(1s);
    ranks.signal(victim, SIGCONT);
    for (std::uint32_t rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks.exit_code(rank), 0);
  }
}

TEST(ControlPlaneProcesses, ATimeInWhichAllRanksAreStoppedIsNobodysSilence) {
  TalkingRanks ranks(3, [](TalkingRanks::Self& self) {
    ControlPlane plane(self.bootstrap, with_stall(kStall));
    (void)plane.all_gather({});
    plane.working(true);
    self.say("ready");
    const auto until = std::chrono::steady_clock::now() + kStall + 2s;
    while (std::chrono::steady_clock::now() < until && !plane.failed()) {
      plane.progressed(host::SteadyClock().now());
      std::this_thread::sleep_for(5ms);
    }
    if (plane.failed()) return end_with_failure(self, plane);
    (void)plane.all_gather({});
    self.say("calm");
    return 0;
  });
  ASSERT_TRUE(ranks.all_say("ready"));
  for (std::uint32_t rank = 0; rank < 3; ++rank) ranks.signal(rank, SIGSTOP);
  std::this_thread::sleep_for(kStall + 1s);
  for (std::uint32_t rank = 0; rank < 3; ++rank) ranks.signal(rank, SIGCONT);
  EXPECT_TRUE(ranks.all_say("calm"));
}

TEST(ControlPlaneProcesses, ARankThatFailsAndThenExitsIsKnownByItsCause) {
  for (std::uint32_t victim = 0; victim < kRanks; ++victim) {
    TalkingRanks ranks(kRanks, [victim](TalkingRanks::Self& self) {
      ControlPlane plane(self.bootstrap, with_stall(60s));
      (void)plane.all_gather({});
      if (self.bootstrap.rank() == victim) {
        plane.fail(Failure::Kind::Failed, "out of paper");
        _exit(5);
      }
      return end_with_failure(self, plane);
    });
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      if (rank != victim) {
        EXPECT_EQ(ending_of(ranks, rank, {}).cause, "rank " + std::to_string(victim) + ": out of paper");
      }
    }
    EXPECT_EQ(ranks.exit_code(victim), 5);
  }
}

TEST(ControlPlaneProcesses, ExitingWithoutAWordIsADeath) {
  TalkingRanks ranks(3, [](TalkingRanks::Self& self) {
    ControlPlane plane(self.bootstrap, with_stall(60s));
    (void)plane.all_gather({});
    if (self.bootstrap.rank() == 1) _exit(0);
    return end_with_failure(self, plane);
  });
  for (const std::uint32_t rank : {0U, 2U})
    EXPECT_EQ(ending_of(ranks, rank, {}).cause, "rank 1 died (its connection closed)");
}

TEST(ControlPlaneProcesses, ADeathEndsAnExchange) {
  TalkingRanks ranks(3, [](TalkingRanks::Self& self) {
    ControlPlane plane(self.bootstrap, with_stall(60s));
    (void)plane.all_gather({});
    self.say("ready");
    if (self.bootstrap.rank() == 2) return end_with_failure(self, plane);
    try {
      (void)plane.all_gather(std::vector<std::byte>(std::size_t{1} << 20));
    } catch (const Aborted& error) {
      self.say(error.what());
    }
    return kFailed;
  });
  ASSERT_TRUE(ranks.all_say("ready"));
  ranks.signal(2, SIGKILL);
  for (const std::uint32_t rank : {0U, 1U}) {
    EXPECT_EQ(ranks.line(rank), "rank 2 died (its connection closed)");
    EXPECT_EQ(ranks.exit_code(rank), kFailed);
  }
}

TEST(ControlPlaneProcesses, LeavingWhileAnotherIsStoppedTakesBoundedTime) {
  TalkingRanks ranks(2, [](TalkingRanks::Self& self) {
    ControlPlane plane(self.bootstrap, with_stall(60s));
    (void)plane.all_gather({});
    self.say("ready");
    if (self.bootstrap.rank() != 0) return end_with_failure(self, plane);
    std::this_thread::sleep_for(300ms);
    return 0;
  });
  ASSERT_EQ(ranks.line(1), "ready");
  ranks.signal(1, SIGSTOP);
  EXPECT_EQ(ranks.exit_code(0), 0);
}

TEST(ControlPlaneProcesses, ABusyMachineIsNoReasonToFail) {
  TalkingRanks ranks(kRanks, [](TalkingRanks::Self& self) {
    ControlOptions options = with_stall(60s);
    options.heartbeat = 2ms;
    ControlPlane plane(self.bootstrap, options);
    std::atomic<bool> over{false};
    std::vector<std::thread> busy;
    for (int i = 0; i < 4; ++i) {
      busy.emplace_back([&over] {
        while (!over) {
        }
      });
    }
    for (int round = 0; round < 50; ++round) (void)plane.all_gather(std::vector<std::byte>(1000));
    over = true;
    for (std::thread& thread : busy) thread.join();
    self.say(plane.failed() ? plane.failure()->cause : "calm");
    (void)plane.all_gather({});
    return 0;
  });
  EXPECT_TRUE(ranks.all_say("calm"));
}

}  // namespace
}  // namespace sluice::process
