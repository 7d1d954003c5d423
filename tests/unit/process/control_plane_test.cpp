#include "sluice/process/control_plane.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "memory_bootstrap.hpp"
#include "sluice/error.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/process/control_frame.hpp"

namespace sluice::process {
namespace {

using namespace std::chrono_literals;
using test::MeetingPlace;
using test::MemoryBootstrap;
using testing::HasSubstr;

/// Longer than a loaded machine keeps a thread from running.
constexpr auto kStall = 3s;

ControlOptions quick(Duration stall = 60s) {
  ControlOptions options;
  options.stall_timeout = stall;
  options.heartbeat = 20ms;
  return options;
}

Bytes blob_of(std::uint32_t rank, std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(rank * 7 + i);
  return bytes;
}

/// Every rank on a thread of its own, and what each of them returns.
std::vector<std::string> on_threads(std::uint32_t ranks, const ControlOptions& options,
                                    const std::function<std::string(ControlPlane&)>& body) {
  MeetingPlace place(ranks);
  std::vector<std::string> said(ranks);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      MemoryBootstrap bootstrap(place, rank);
      try {
        ControlPlane plane(bootstrap, options);
        said[rank] = body(plane);
      } catch (const std::exception& error) {
        said[rank] = std::string("thrown: ") + error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return said;
}

/// Waits for the failure; bounded by the tests' own time.
std::string await_failure(const ControlPlane& plane) {
  for (int i = 0; i < 6000 && !plane.failed(); ++i) std::this_thread::sleep_for(10ms);
  const std::optional<Failure> failure = plane.failure();
  return failure ? failure->cause : "no failure";
}

std::vector<std::string> times(std::uint32_t count, const std::string& text) {
  return std::vector<std::string>(count, text);
}

TEST(ControlPlane, GathersTheBytesOfAllRanksInRankOrder) {
  const auto said = on_threads(4, quick(), [](ControlPlane& plane) -> std::string {
    const auto all = plane.all_gather(blob_of(plane.rank(), 10 + plane.rank()));
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      if (all.at(rank) != blob_of(rank, 10 + rank)) return "wrong";
    }
    return all.size() == 4 ? "right" : "too many";
  });
  EXPECT_EQ(said, times(4, "right"));
}

TEST(ControlPlane, GathersManyTimesAndLargeBlobsAndEmptyOnes) {
  const auto said = on_threads(3, quick(), [](ControlPlane& plane) -> std::string {
    for (std::size_t round = 0; round < 200; ++round) {
      const std::size_t size = round % 50 == 49 ? (std::size_t{3} << 20) + round : round % 3;
      const auto all = plane.all_gather(blob_of(plane.rank(), plane.rank() == 1 ? 0 : size));
      for (std::uint32_t rank = 0; rank < 3; ++rank) {
        if (all.at(rank) != blob_of(rank, rank == 1 ? 0 : size)) return "wrong in " + std::to_string(round);
      }
    }
    return plane.failed() ? "failed" : "right";
  });
  EXPECT_EQ(said, times(3, "right"));
}

TEST(ControlPlane, ARunOfOneRank) {
  const auto said = on_threads(1, quick(), [](ControlPlane& plane) -> std::string {
    if (plane.all_gather(blob_of(0, 5)).at(0) != blob_of(0, 5)) return "wrong";
    plane.fail(Failure::Kind::Failed, "no more");
    return plane.failure()->cause;
  });
  EXPECT_EQ(said, times(1, "rank 0: no more"));
}

TEST(ControlPlane, RefusesMoreThanAnExchangeCanCarry) {
  const auto said = on_threads(1, quick(), [](ControlPlane& plane) -> std::string {
    (void)plane.all_gather(Bytes(longest_blob(1) + 1));
    return "taken";
  });
  EXPECT_THAT(said[0], HasSubstr("bytes for an exchange of all ranks"));
}

TEST(ControlPlane, OneHostHasOneClock) {
  const auto said = on_threads(3, quick(), [](ControlPlane& plane) -> std::string {
    (void)plane.all_gather({});
    const Duration offset = plane.clock_offset();
    return offset > -1s && offset < 1s && (plane.rank() != 0 || offset == 0s) ? "same" : "other";
  });
  EXPECT_EQ(said, times(3, "same"));
}

TEST(ControlPlane, EveryRankLearnsOfAFailureAndItsCause) {
  for (std::uint32_t culprit = 0; culprit < 3; ++culprit) {
    const auto said = on_threads(3, quick(), [culprit](ControlPlane& plane) -> std::string {
      if (plane.rank() == culprit) plane.fail(Failure::Kind::Failed, "out of paper");
      std::string cause = await_failure(plane);
      const Failure failure = plane.failure().value();
      if (failure.rank != culprit || failure.kind != Failure::Kind::Failed) return "another failure";
      return cause;
    });
    EXPECT_EQ(said, times(3, "rank " + std::to_string(culprit) + ": out of paper"));
  }
}

TEST(ControlPlane, ACauseThatNamesItsRankIsLeftAsItIs) {
  const auto said = on_threads(2, quick(), [](ControlPlane& plane) -> std::string {
    if (plane.rank() == 1)
      plane.fail(Failure::Kind::Failed, "rank 1, F(chunk 1, microbatch 2): out of paper");
    return await_failure(plane);
  });
  EXPECT_EQ(said, times(2, "rank 1, F(chunk 1, microbatch 2): out of paper"));
}

TEST(ControlPlane, RanksAreCalledAsTheCallerWants) {
  ControlOptions options = quick();
  options.name_of = [](std::uint32_t rank) { return "rank " + std::to_string(rank) + " (stage 0)"; };
  const auto said = on_threads(2, options, [](ControlPlane& plane) -> std::string {
    if (plane.rank() == 1) plane.fail(Failure::Kind::Failed, "rank 10 was expected");
    return await_failure(plane);
  });
  EXPECT_EQ(said, times(2, "rank 1 (stage 0): rank 10 was expected"));
}

TEST(ControlPlane, AllRanksAgreeWhichOfSeveralFailuresWasFirst) {
  const auto said = on_threads(4, quick(), [](ControlPlane& plane) -> std::string {
    plane.fail(Failure::Kind::Failed, "me first");
    return plane.failure()->cause;
  });
  EXPECT_EQ(said, times(4, said[0]));
  EXPECT_THAT(said[0], HasSubstr(": me first"));
}

TEST(ControlPlane, AnExchangeEndsWithTheFailure) {
  const auto said = on_threads(3, quick(), [](ControlPlane& plane) -> std::string {
    if (plane.rank() == 2) {
      plane.fail(Failure::Kind::Failed, "no share");
      return "failed";
    }
    try {
      (void)plane.all_gather({});
    } catch (const Aborted& error) {
      return error.what();
    }
    return "gathered";
  });
  EXPECT_EQ(said, (std::vector<std::string>{"rank 2: no share", "rank 2: no share", "failed"}));
}

TEST(ControlPlane, HooksAreCalledOnceWheneverTheyAreGiven) {
  const auto said = on_threads(3, quick(), [](ControlPlane& plane) -> std::string {
    std::atomic<int> calls{0};
    const auto hook = [&](const Failure& failure) { calls += failure.cause == "rank 1: over" ? 1 : 100; };
    plane.on_failure(hook);
    if (plane.rank() == 1) plane.fail(Failure::Kind::Failed, "over");
    await_failure(plane);
    for (int i = 0; i < 6000 && calls == 0; ++i) std::this_thread::sleep_for(10ms);
    plane.on_failure(hook);
    return std::to_string(calls);
  });
  EXPECT_EQ(said, times(3, "2"));
}

TEST(ControlPlane, TheHubCollectsTheReportsOfRanksThatLive) {
  const auto said = on_threads(4, quick(), [](ControlPlane& plane) -> std::string {
    if (plane.rank() == 1) plane.fail(Failure::Kind::Failed, "over");
    await_failure(plane);
    if (plane.rank() == 3) return "left without a word";
    plane.report("{\"rank\":" + std::to_string(plane.rank()) + "}");
    if (plane.rank() != 0) return "reported";
    std::string all;
    for (const std::string& report : plane.reports(60s)) all += "[" + report + "]";
    return all;
  });
  EXPECT_EQ(said[0], "[{\"rank\":0}][{\"rank\":1}][{\"rank\":2}][]");
}

TEST(ControlPlane, LeavingInOrderIsNoDeath) {
  const auto said = on_threads(4, quick(), [](ControlPlane& plane) -> std::string {
    (void)plane.all_gather({});
    if (plane.rank() == 3) return "left";
    // Long enough for many heartbeats without it.
    std::this_thread::sleep_for(300ms);
    return plane.failed() ? plane.failure()->cause : "calm";
  });
  EXPECT_EQ(said, (std::vector<std::string>{"calm", "calm", "calm", "left"}));
}

TEST(ControlPlane, AnExchangeWithARankThatHasLeftFails) {
  const auto said = on_threads(3, quick(), [](ControlPlane& plane) -> std::string {
    if (plane.rank() == 1) return "left";
    (void)plane.all_gather({});
    return "gathered";
  });
  EXPECT_THAT(said[0], HasSubstr("rank 1 left the run while others exchange with it"));
  EXPECT_THAT(said[2], HasSubstr("rank 1 left the run while others exchange with it"));
}

TEST(ControlPlane, AnExchangeAfterTheHubHasLeftFails) {
  const auto said = on_threads(2, quick(), [](ControlPlane& plane) -> std::string {
    if (plane.rank() == 0) return "left";
    (void)plane.all_gather({});
    return "gathered";
  });
  EXPECT_THAT(said[1], HasSubstr("rank 0"));
  EXPECT_THAT(said[1], HasSubstr("thrown"));
}

TEST(ControlPlane, ARankThatDoesNotComeToAnExchangeIsNamed) {
  ControlOptions options = quick();
  options.exchange_timeout = 200ms;
  const auto said = on_threads(3, options, [](ControlPlane& plane) -> std::string {
    if (plane.rank() == 2) return await_failure(plane);
    (void)plane.all_gather({});
    return "gathered";
  });
  for (const std::string& text : said)
    EXPECT_THAT(text, HasSubstr("rank 2 did not come to an exchange of all ranks within 0.2 s"));
}

TEST(ControlPlane, NoProgressInsideAnIterationIsAStall) {
  const auto said = on_threads(3, quick(kStall), [](ControlPlane& plane) -> std::string {
    if (plane.rank() == 1) plane.working(true);
    std::string cause = await_failure(plane);
    return plane.failure()->kind == Failure::Kind::Stalled ? cause : "another failure: " + cause;
  });
  for (const std::string& text : said) EXPECT_THAT(text, HasSubstr("no progress on any rank for "));
}

TEST(ControlPlane, ProgressOfOneRankIsEnough) {
  const auto said = on_threads(3, quick(kStall), [](ControlPlane& plane) -> std::string {
    plane.working(true);
    const auto until = std::chrono::steady_clock::now() + kStall + 2s;
    while (std::chrono::steady_clock::now() < until && !plane.failed()) {
      if (plane.rank() == 2) plane.progressed(host::SteadyClock().now());
      std::this_thread::sleep_for(10ms);
    }
    const std::string found = plane.failed() ? plane.failure()->cause : "calm";
    if (!plane.failed()) (void)plane.all_gather({});
    return found;
  });
  EXPECT_EQ(said, times(3, "calm"));
}

TEST(ControlPlane, OutsideOfIterationsNobodyNeedsToGetOn) {
  const auto said = on_threads(2, quick(kStall), [](ControlPlane& plane) -> std::string {
    plane.working(true);
    plane.working(false);
    std::this_thread::sleep_for(kStall + 2s);
    return plane.failed() ? plane.failure()->cause : "calm";
  });
  EXPECT_EQ(said, times(2, "calm"));
}

TEST(ControlPlane, ASuspicionGivesWayToTheRealCause) {
  const auto said = on_threads(3, quick(), [](ControlPlane& plane) -> std::string {
    if (plane.rank() == 1) {
      plane.suspect("lost its connection to rank 2");
    } else if (plane.rank() == 2) {
      plane.fail(Failure::Kind::Failed, "out of paper");
    }
    return await_failure(plane);
  });
  EXPECT_EQ(said, times(3, "rank 2: out of paper"));
}

TEST(ControlPlane, ASuspicionWithoutACauseIsTheFailure) {
  const auto said = on_threads(2, quick(), [](ControlPlane& plane) -> std::string {
    if (plane.rank() == 1) plane.suspect("lost its connection to rank 0");
    return await_failure(plane);
  });
  EXPECT_EQ(said, times(2, "rank 1: lost its connection to rank 0"));
}

TEST(ControlPlane, ARankEndedByAnExceptionHasFailed) {
  const auto said = on_threads(3, quick(), [](ControlPlane& plane) -> std::string {
    if (plane.rank() == 1) throw std::runtime_error("unrelated");
    return await_failure(plane);
  });
  EXPECT_EQ(said, (std::vector<std::string>{"rank 1: was ended by an exception", "thrown: unrelated",
                                            "rank 1: was ended by an exception"}));
}

TEST(ControlPlane, RefusesTimesThatAreNotPositive) {
  const auto refused = [](Duration ControlOptions::*field) {
    ControlOptions options;
    options.*field = 0s;
    return on_threads(1, options, [](ControlPlane&) -> std::string { return "taken"; })[0];
  };
  EXPECT_THAT(refused(&ControlOptions::stall_timeout), HasSubstr("stall_timeout: must be positive"));
  EXPECT_THAT(refused(&ControlOptions::heartbeat), HasSubstr("heartbeat: must be positive"));
  EXPECT_THAT(refused(&ControlOptions::connect_timeout), HasSubstr("connect_timeout: must be positive"));
  EXPECT_THAT(refused(&ControlOptions::exchange_timeout), HasSubstr("exchange_timeout: must be positive"));
}

}  // namespace
}  // namespace sluice::process
