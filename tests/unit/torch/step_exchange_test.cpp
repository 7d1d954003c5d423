#include "sluice/torch/step_exchange.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>

#include "sluice/error.hpp"

namespace sluice::gpt {
namespace {

using std::chrono::milliseconds;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string text_of(const SharedBytes& bytes) {
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

template <typename Body>
std::vector<std::future<std::string>> start_ranks(std::uint32_t ranks, Body body) {
  std::vector<std::future<std::string>> results;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    results.push_back(std::async(std::launch::async, [=] { return body(rank); }));
  }
  return results;
}

TEST(InProcessExchange, GathersInRankOrderRoundAfterRound) {
  InProcessExchange exchange(3);
  auto results = start_ranks(3, [&](std::uint32_t rank) {
    std::string seen;
    for (int round = 0; round < 50; ++round) {
      const std::string own = std::to_string(rank) + ":" + std::to_string(round) + " ";
      for (const SharedBytes& bytes : exchange.all_gather(rank, bytes_of(own))) seen += text_of(bytes);
    }
    return seen;
  });
  std::string expected;
  for (int round = 0; round < 50; ++round) {
    for (const char* rank : {"0:", "1:", "2:"}) expected += rank + std::to_string(round) + " ";
  }
  for (auto& result : results) EXPECT_EQ(result.get(), expected);
}

TEST(InProcessExchange, SwapsBetweenTwoRanksWhileOthersStayAway) {
  InProcessExchange exchange(3);
  auto results = start_ranks(3, [&](std::uint32_t rank) {
    if (rank == 1) return std::string("away");
    return text_of(exchange.swap_with(rank, 2 - rank, bytes_of("from " + std::to_string(rank))));
  });
  EXPECT_EQ(results[0].get(), "from 2");
  EXPECT_EQ(results[1].get(), "away");
  EXPECT_EQ(results[2].get(), "from 0");
}

TEST(InProcessExchange, OneRankNeedsNobody) {
  InProcessExchange exchange(1);
  const auto all = exchange.all_gather(0, bytes_of("own"));
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(text_of(all[0]), "own");
}

TEST(InProcessExchange, AbortEndsTheWaitOfOtherRanks) {
  InProcessExchange exchange(2);
  auto waiting = std::async(std::launch::async, [&] { return exchange.all_gather(0, bytes_of("own")); });
  exchange.abort("rank 1 failed: disk full");
  try {
    (void)waiting.get();
    FAIL() << "the wait ended without an error";
  } catch (const Aborted& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("rank 1 failed: disk full"));
  }
  EXPECT_THROW((void)exchange.swap_with(0, 1, bytes_of("own")), Aborted);
}

TEST(InProcessExchange, AbortKeepsTheFirstCause) {
  InProcessExchange exchange(2);
  exchange.abort("first");
  exchange.abort("second");
  try {
    (void)exchange.all_gather(0, {});
    FAIL() << "no error after an abort";
  } catch (const Aborted& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("first"));
  }
}

TEST(InProcessExchange, ARankThatNeverComesIsNamed) {
  InProcessExchange exchange(2, milliseconds(1));
  try {
    (void)exchange.all_gather(0, bytes_of("own"));
    FAIL() << "waited for nobody";
  } catch (const StallError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("rank 0 waited for rank 1"));
  }
}

}  // namespace
}  // namespace sluice::gpt
