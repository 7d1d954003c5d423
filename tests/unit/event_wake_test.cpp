#include "sluice/host/event_wake.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "sluice/host/steady_clock.hpp"

namespace sluice::host {
namespace {

using namespace std::chrono_literals;

TEST(EventWake, ANotifiedThreadDoesNotSleep) {
  EventWake wake;
  wake.notify();
  wake.wait_until(kNever);
  EXPECT_EQ(wake.sleeps(), 0U);
}

TEST(EventWake, ADeadlineInThePastDoesNotSleep) {
  EventWake wake;
  wake.wait_until(SteadyClock().now() - 1ms);
  wake.wait_until(Time{0});
  EXPECT_EQ(wake.sleeps(), 0U);
}

TEST(EventWake, SleepsUntilItsDeadline) {
  EventWake wake;
  wake.wait_until(SteadyClock().now() + 50ms);
  EXPECT_EQ(wake.sleeps(), 1U);
}

TEST(EventWake, ANotificationCountsOnce) {
  EventWake wake;
  wake.notify();
  wake.notify();
  wake.wait_until(kNever);
  EXPECT_EQ(wake.sleeps(), 0U);
  wake.wait_until(SteadyClock().now() + 1us);
  wake.wait_until(SteadyClock().now() + 50ms);
  EXPECT_GE(wake.sleeps(), 1U) << "the second notification was not a second one";
}

/// Deadlines that pass while a notification is on its way: neither may be lost, nor wake twice for ever.
TEST(EventWake, DeadlinesAndNotificationsMayCoincide) {
  EventWake wake;
  std::atomic<bool> stop{false};
  std::thread notifier([&] {
    while (!stop.load()) {
      wake.notify();
      std::this_thread::sleep_for(20us);
    }
  });
  for (int i = 0; i < 500; ++i) wake.wait_until(SteadyClock().now() + 20us);
  stop.store(true);
  notifier.join();
  wake.wait_until(SteadyClock().now() + 1us);
  const std::uint64_t before = wake.sleeps();
  wake.wait_until(SteadyClock().now() + 5ms);
  wake.wait_until(SteadyClock().now() + 5ms);
  EXPECT_GT(wake.sleeps(), before);
}

/// Counts what it is asked for and never sleeps.
class CountingWake final : public Wake {
 public:
  void notify() noexcept override {}
  void wait_until(Time deadline) override {
    ++waits;
    last_deadline = deadline;
  }

  int waits = 0;
  Time last_deadline{};
};

TEST(Idler, SpinsAndYieldsBeforeItSleeps) {
  CountingWake wake;
  Idler idler(wake);
  int turns = 0;
  while (wake.waits == 0) {
    idler.wait(Time(42));
    ASSERT_LT(++turns, 10'000);
  }
  EXPECT_GT(turns, 2);
  EXPECT_EQ(wake.last_deadline, Time(42));
  idler.wait(Time(43));
  EXPECT_EQ(wake.waits, 2) << "goes on sleeping";
  EXPECT_EQ(wake.last_deadline, Time(43));
}

TEST(Idler, StartsAgainAfterAReset) {
  CountingWake wake;
  Idler idler(wake);
  int first = 0;
  for (; wake.waits == 0; ++first) idler.wait(kNever);
  idler.reset();
  int second = 0;
  for (; wake.waits == 1; ++second) idler.wait(kNever);
  EXPECT_EQ(first, second);
}

}  // namespace
}  // namespace sluice::host
