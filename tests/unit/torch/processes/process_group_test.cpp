#include "sluice/torch/process_group.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "rank_processes.hpp"
#include "sluice/error.hpp"
#include "sluice/torch/process_groups.hpp"
#include "text_bytes.hpp"

namespace sluice::gpt {
namespace {

using std::chrono::milliseconds;
using test::bytes_of;
using test::RankProcesses;
using test::text_of;
using testing::HasSubstr;

constexpr std::chrono::seconds kTimeout{30};

/// Every call once, from every rank.
std::string exercise(ProcessGroup& group) {
  const std::uint32_t own = group.index();
  std::vector<float> values{1.0F + static_cast<float>(own), 10.0F};
  group.all_reduce_sum(values);
  std::string text = std::to_string(values[0]) + " " + std::to_string(values[1]) + " ";
  text += text_of(group.all_gather(bytes_of(std::string(own, 'x')))) + " ";
  if (own != 1) text += text_of(group.swap_with(2 - own, bytes_of("from " + std::to_string(own))));
  group.all_reduce_sum({});
  group.barrier();
  return text;
}

TEST(ProcessGroup, ReducesGathersAndSwaps) {
  const auto results = RankProcesses::run(3, [](const TcpStoreSettings& settings) {
    TcpStoreBootstrap bootstrap(settings);
    ProcessGroups groups({1, 3, 1}, bootstrap, kTimeout);
    return exercise(groups.world()) + "|" + exercise(groups.data());
  });
  EXPECT_EQ(results[0].text, "6.000000 30.000000 ;x;xx; from 2|6.000000 30.000000 ;x;xx; from 2");
  EXPECT_EQ(results[1].text, "6.000000 30.000000 ;x;xx; |6.000000 30.000000 ;x;xx; ");
  EXPECT_EQ(results[2].text, "6.000000 30.000000 ;x;xx; from 0|6.000000 30.000000 ;x;xx; from 0");
}

TEST(ProcessGroup, OneRankNeedsNobody) {
  const TcpStoreHost store;
  TcpStoreSettings settings;
  settings.port = store.port();
  settings.host = "127.0.0.1";
  TcpStoreBootstrap bootstrap(settings);
  ProcessGroups groups({1, 1, 1}, bootstrap, kTimeout);
  std::vector<float> values{1.5F};
  groups.tensor().all_reduce_sum(values);
  groups.world().barrier();
  EXPECT_EQ(values[0], 1.5F);
  EXPECT_EQ(text_of(groups.world().all_gather(bytes_of("own"))), "own;");
  EXPECT_THROW((void)groups.world().swap_with(0, {}), Error);
}

/// All bits of the sums of numbers whose sum depends on the order.
std::string bits_of_sums(ProcessGroup& group, std::size_t size) {
  std::mt19937 random(group.index() + 1);
  std::normal_distribution<float> normal(0.0F, 1.0F);
  std::uint64_t digest = 1469598103934665603U;  // FNV-1a
  std::vector<float> values(size);
  for (int round = 0; round < 3; ++round) {
    for (float& value : values) value = normal(random);
    group.all_reduce_sum(values);
    for (const float value : values) digest = (digest ^ std::bit_cast<std::uint32_t>(value)) * 1099511628211U;
  }
  return std::to_string(digest) + " ";
}

TEST(ProcessGroup, EveryRankAndRunGetsTheSameBits) {
  const auto results = RankProcesses::run(3, [](const TcpStoreSettings& settings) {
    TcpStoreBootstrap bootstrap(settings);
    ProcessGroups groups({1, 1, 3}, bootstrap, kTimeout);
    std::string text;
    for (const std::size_t size : {1U, 7U, 1000U, 100'001U}) {
      const std::string first = bits_of_sums(groups.tensor(), size);
      text += first;
      if (bits_of_sums(groups.tensor(), size) != first) text += "differs from itself ";
      if (bits_of_sums(groups.world(), size) != first) text += "differs in another group ";
    }
    return text;
  });
  EXPECT_THAT(results[0].text, testing::Not(HasSubstr("differs")));
  EXPECT_EQ(results[1].text, results[0].text);
  EXPECT_EQ(results[2].text, results[0].text);
}

TEST(ProcessGroup, ARankThatLeavesEndsTheWaitOfTheOthers) {
  const auto results = RankProcesses::run(2, [](const TcpStoreSettings& settings) -> std::string {
    TcpStoreBootstrap bootstrap(settings);
    ProcessGroups groups({1, 1, 2}, bootstrap, kTimeout);
    if (settings.rank == 1) return "left";
    std::vector<float> values(4);
    try {
      groups.tensor().all_reduce_sum(values);
      return "reduced alone";
    } catch (const Aborted& error) {
      return error.what();
    }
  });
  EXPECT_EQ(results[1].text, "left");
  EXPECT_THAT(results[0].text, HasSubstr("rank 0 in its tensor-parallel group (ranks 0, 1) lost a rank"));
}

TEST(ProcessGroup, ARankThatDoesNotCallIsAStall) {
  const auto results = RankProcesses::run(2, [](const TcpStoreSettings& settings) -> std::string {
    TcpStoreBootstrap bootstrap(settings);
    ProcessGroups groups({1, 2, 1}, bootstrap, milliseconds(1500));
    std::string text = "stayed away";
    if (settings.rank == 0) {
      try {
        groups.data().barrier();
        text = "passed alone";
      } catch (const StallError& error) {
        text = error.what();
      }
    }
    (void)bootstrap.all_gather({});
    return text;
  });
  EXPECT_EQ(results[1].text, "stayed away");
  EXPECT_THAT(results[0].text,
              HasSubstr("rank 0 in its data-parallel group (ranks 0, 1) waited for 1500 ms"));
}

}  // namespace
}  // namespace sluice::gpt
