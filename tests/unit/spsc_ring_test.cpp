#include "sluice/host/spsc_ring.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace sluice::host {
namespace {

TEST(SpscRing, IsEmptyAtFirst) {
  SpscRing<int> ring(3);
  int item = 7;
  EXPECT_TRUE(ring.empty());
  EXPECT_FALSE(ring.pop(item));
  EXPECT_EQ(item, 7);
}

TEST(SpscRing, HoldsAtLeastItsCapacityAndThenRefuses) {
  for (const std::size_t capacity : {1U, 2U, 3U, 4U, 7U, 8U, 9U}) {
    SpscRing<std::size_t> ring(capacity);
    std::size_t held = 0;
    while (ring.push(held)) ++held;
    EXPECT_GE(held, capacity);
    EXPECT_LE(held, 2 * capacity + 1);
    for (std::size_t expected = 0; expected < held; ++expected) {
      std::size_t item = ~std::size_t{0};
      ASSERT_TRUE(ring.pop(item));
      EXPECT_EQ(item, expected) << "what was refused must not have replaced anything";
    }
    EXPECT_TRUE(ring.empty());
  }
}

TEST(SpscRing, KeepsTheOrderRoundAndRound) {
  SpscRing<int> ring(3);
  int next_in = 0;
  int next_out = 0;
  for (int turn = 0; turn < 100; ++turn) {
    for (int i = 0; i <= turn % 3; ++i) ASSERT_TRUE(ring.push(next_in++));
    EXPECT_FALSE(ring.empty());
    for (int item = 0; ring.pop(item);) EXPECT_EQ(item, next_out++);
  }
  EXPECT_EQ(next_out, next_in);
}

TEST(SpscRing, MovesItemsThatCannotBeCopied) {
  SpscRing<std::unique_ptr<int>> ring(2);
  ASSERT_TRUE(ring.push(std::make_unique<int>(5)));
  ASSERT_TRUE(ring.push(std::make_unique<int>(6)));
  std::unique_ptr<int> item;
  ASSERT_TRUE(ring.pop(item));
  EXPECT_EQ(*item, 5);
  ASSERT_TRUE(ring.pop(item));
  EXPECT_EQ(*item, 6);
}

TEST(SpscRing, AnItemTakenIsGoneFromTheRing) {
  SpscRing<std::shared_ptr<int>> ring(2);
  const auto shared = std::make_shared<int>(1);
  ring.push(shared);
  EXPECT_EQ(shared.use_count(), 2);
  {
    std::shared_ptr<int> item;
    ring.pop(item);
  }
  EXPECT_EQ(shared.use_count(), 1);
}

TEST(SpscRing, CarriesEverythingBetweenTwoThreads) {
  constexpr std::uint64_t kItems = 20'000;
  SpscRing<std::unique_ptr<std::uint64_t>> ring(4);
  std::thread producer([&ring] {
    for (std::uint64_t i = 0; i < kItems; ++i) {
      // A refused item is lost to the caller, so each attempt brings its own.
      while (!ring.push(std::make_unique<std::uint64_t>(i))) std::this_thread::yield();
    }
  });
  std::uint64_t sum = 0;
  for (std::uint64_t expected = 0; expected < kItems;) {
    std::unique_ptr<std::uint64_t> item;
    if (!ring.pop(item)) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(*item, expected++);
    sum += *item;
  }
  producer.join();
  EXPECT_EQ(sum, kItems * (kItems - 1) / 2);
  EXPECT_TRUE(ring.empty());
}

}  // namespace
}  // namespace sluice::host
