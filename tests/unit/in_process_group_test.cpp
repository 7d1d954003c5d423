#include "sluice/host/in_process_group.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "sluice/agree/form.hpp"
#include "sluice/error.hpp"
#include "sluice/host/draws.hpp"
#include "sluice/host/event_wake.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/pipeline.hpp"

namespace sluice::host {
namespace {

using namespace std::chrono_literals;

struct CountedWake final : Wake {
  void notify() noexcept override { ++notified; }
  void wait_until(Time /*deadline*/) override {}
  int notified = 0;
};

std::span<const std::byte> as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

TEST(InProcessGroup, AMessageNotifiesItsReceiver) {
  CountedWake first;
  CountedWake second;
  InProcessGroup group({&first, &second}, {8, 2});
  group.channel(0).send(1, as_bytes("abc"));
  EXPECT_EQ(first.notified, 0);
  EXPECT_EQ(second.notified, 1);
}

TEST(InProcessGroup, RefusesWhatItWasNotBuiltFor) {
  InProcessGroup group({nullptr, nullptr}, {4, 2});
  EXPECT_THROW(group.channel(0).send(1, as_bytes("12345")), Error);
  const auto send_many = [&] {
    for (int i = 0; i < 100; ++i) group.channel(0).send(1, as_bytes("1234"));
  };
  EXPECT_THROW(send_many(), Error);
  EXPECT_THROW(InProcessGroup({}, {4, 2}), ConfigError);
}

TEST(InProcessGroup, AMessageStandsWhileTheRingIsFilledBehindIt) {
  InProcessGroup group({nullptr, nullptr}, {4, 2});
  std::uint32_t from = 9;
  std::span<const std::byte> message;
  for (int round = 0; round < 20; ++round) {
    const std::string mine = "m" + std::to_string(100 + round);
    group.channel(0).send(1, as_bytes(mine));
    ASSERT_TRUE(group.channel(1).poll(from, message));
    group.channel(0).send(1, as_bytes("xxxx"));
    group.channel(0).send(1, as_bytes("yyyy"));
    EXPECT_EQ(std::memcmp(message.data(), mine.data(), 4), 0);
    ASSERT_TRUE(group.channel(1).poll(from, message));
    ASSERT_TRUE(group.channel(1).poll(from, message));
  }
}

/// Threads of a group, each with an arrival order of its own, that sleep while nothing comes.
class Threads : public testing::TestWithParam<agree::Form> {};

INSTANTIATE_TEST_SUITE_P(Forms, Threads, testing::ValuesIn(agree::kForms), [](const auto& form) {
  return form.param == agree::Form::Leader   ? "Leader"
         : form.param == agree::Form::Bitmap ? "Bitmap"
                                             : "FirstPick";
});

struct Rank {
  EventWake wake;
  std::vector<Task> ran;
  std::string error;
};

constexpr std::uint32_t kMembers = 3;
constexpr Microbatch kMicrobatches = 20;
constexpr std::uint64_t kIterations = 5;

void run_rank(std::uint32_t member, agree::Form form, agree::GroupChannel& channel, Rank& rank) {
  const Pipeline pipeline = Pipeline::chain(1, kMicrobatches);
  const StageTasks tasks(pipeline, 0);
  const SteadyClock clock;
  const auto agreement = agree::make_agreement(form, tasks, channel, clock);
  const Time deadline = clock.now() + 60s;
  Arbiter arbiter(tasks, Hint::named("bf", pipeline, 0));
  for (std::uint64_t iteration = 0; iteration < kIterations; ++iteration) {
    arbiter.begin();
    agreement->begin({iteration, IterationKind::Training}, arbiter);
    std::vector<Task> to_come;
    for (std::uint32_t index = 0; index < tasks.size(); ++index) {
      to_come.push_back(tasks.task(Pass::Forward, index));
      to_come.push_back(tasks.task(Pass::Backward, index));
    }
    const std::size_t until = rank.ran.size() + to_come.size();
    for (std::uint64_t step = 0; rank.ran.size() < until; ++step) {
      if (!to_come.empty()) {
        const std::uint64_t draw = draws::bits({member, iteration, step});
        const auto at = static_cast<std::ptrdiff_t>(draw % to_come.size());
        const RunnableChange change{to_come[static_cast<std::size_t>(at)], true};
        to_come.erase(to_come.begin() + at);
        arbiter.insert(change.task);
        agreement->announce({&change, 1});
      }
      const auto task = agreement->poll(arbiter, kAllPasses);
      if (task) {
        arbiter.decided(*task);
        rank.ran.push_back(*task);
      } else if (to_come.empty()) {
        if (clock.now() > deadline) throw StallError("member " + std::to_string(member) + " is stuck");
        rank.wake.wait_until(clock.now() + 1s);
      }
    }
  }
}

TEST_P(Threads, RunOneSequence) {
  const Pipeline pipeline = Pipeline::chain(1, kMicrobatches);
  std::array<Rank, kMembers> ranks;
  std::vector<Wake*> wakes;
  for (Rank& rank : ranks) wakes.push_back(&rank.wake);
  InProcessGroup group(wakes, agree::needs(GetParam(), StageTasks(pipeline, 0)));
  std::vector<std::thread> threads;
  for (std::uint32_t member = 0; member < kMembers; ++member) {
    threads.emplace_back([&, member] {
      try {
        run_rank(member, GetParam(), group.channel(member), ranks[member]);
      } catch (const std::exception& error) {
        ranks[member].error = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Rank& rank : ranks) {
    EXPECT_EQ(rank.error, "");
    EXPECT_EQ(rank.ran.size(), kIterations * 2 * kMicrobatches);
    EXPECT_EQ(rank.ran, ranks[0].ran);
  }
}

}  // namespace
}  // namespace sluice::host
