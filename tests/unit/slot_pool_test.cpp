#include "sluice/slot_pool.hpp"

#include <gtest/gtest.h>

#include <set>

namespace sluice {
namespace {

TEST(SlotPool, HandsOutEverySlotOnce) {
  SlotPool pool(5);
  std::set<Slot> slots;
  while (pool.free() > 0) slots.insert(pool.acquire());
  EXPECT_EQ(slots, (std::set<Slot>{0, 1, 2, 3, 4}));
  EXPECT_EQ(pool.size(), 5U);
}

TEST(SlotPool, TheSlotReleasedLastComesFirst) {
  SlotPool pool(3);
  const Slot first = pool.acquire();
  const Slot second = pool.acquire();
  pool.release(first);
  pool.release(second);
  EXPECT_EQ(pool.acquire(), second);
  EXPECT_EQ(pool.acquire(), first);
}

}  // namespace
}  // namespace sluice
