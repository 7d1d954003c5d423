#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "sluice/clock.hpp"
#include "sluice/host/event_wake.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/sim/timetable.hpp"
#if SLUICE_HAVE_UCX
#include "memory_bootstrap.hpp"
#include "sluice/ucx/message_plane.hpp"
#endif

/// What every clock and every wake must do.
namespace sluice {
namespace {

using namespace std::chrono_literals;

template <typename Implementation>
class ClockConformance : public ::testing::Test {};
using Clocks = ::testing::Types<host::SteadyClock, sim::VirtualClock>;
TYPED_TEST_SUITE(ClockConformance, Clocks);

TYPED_TEST(ClockConformance, NeverGoesBackAndIsNotNever) {
  const TypeParam clock;
  Time before = clock.now();
  for (int i = 0; i < 1000; ++i) {
    const Time now = clock.now();
    EXPECT_LE(before, now);
    EXPECT_LT(now, kNever);
    before = now;
  }
}

template <typename Implementation>
class WakeConformance : public ::testing::Test {
 protected:
  [[nodiscard]] Time in(Duration duration) const { return clock_.now() + duration; }

  host::SteadyClock clock_;
  Implementation wake_;
};

#if SLUICE_HAVE_UCX
/// The wake of a rank without peers.
class PlaneWake final : public Wake {
 public:
  PlaneWake() : bootstrap_(place_, 0), plane_(bootstrap_, {}) {}

  void notify() noexcept override { plane_.wake().notify(); }
  void wait_until(Time deadline) override {
    plane_.wake().wait_until(deadline);
    // The worker's own events keep it awake until it has seen to them.
    plane_.progress();
  }

 private:
  test::MeetingPlace place_{1};
  test::MemoryBootstrap bootstrap_;
  ucx::MessagePlane plane_;
};

using Wakes = ::testing::Types<host::EventWake, PlaneWake>;
#else
using Wakes = ::testing::Types<host::EventWake>;
#endif
TYPED_TEST_SUITE(WakeConformance, Wakes);

TYPED_TEST(WakeConformance, ReturnsWhenTheDeadlineIsPast) {
  this->wake_.wait_until(Time{0});
  this->wake_.wait_until(this->clock_.now());
}

/// Would hang if the notification were lost: nobody else notifies.
TYPED_TEST(WakeConformance, ANotificationBeforeTheWaitIsNotLost) {
  for (int i = 0; i < 100; ++i) {
    this->wake_.notify();
    this->wake_.wait_until(kNever);
  }
}

TYPED_TEST(WakeConformance, ReturnsAtTheDeadlineWithoutANotification) {
  this->wake_.wait_until(this->in(1ms));
  this->wake_.wait_until(this->in(1us));
}

TYPED_TEST(WakeConformance, SeveralNotificationsEndOneWait) {
  for (int i = 0; i < 5; ++i) this->wake_.notify();
  this->wake_.wait_until(kNever);
  this->wake_.wait_until(this->in(1ms));
}

/// The wake itself orders what was written before the notification: the flag does not.
TYPED_TEST(WakeConformance, WhatWasWrittenBeforeANotificationIsSeenAfterTheWait) {
  for (int i = 0; i < 200; ++i) {
    std::atomic<bool> flag{false};
    std::thread writer([&] {
      flag.store(true, std::memory_order_relaxed);
      this->wake_.notify();
    });
    while (!flag.load(std::memory_order_relaxed)) this->wake_.wait_until(kNever);
    writer.join();
  }
}

/// A waiter that waits without a deadline hangs if one of the hand-overs is lost.
TYPED_TEST(WakeConformance, NoHandOverIsLostWithManyNotifiers) {
  constexpr int kNotifiers = 4;
  constexpr int kEach = 2000;
  std::atomic<int> given{0};
  std::vector<std::thread> notifiers;
  for (int i = 0; i < kNotifiers; ++i) {
    notifiers.emplace_back([&] {
      for (int turn = 0; turn < kEach; ++turn) {
        given.fetch_add(1, std::memory_order_release);
        this->wake_.notify();
        if (turn % 16 == 0) std::this_thread::yield();
      }
    });
  }
  int seen = 0;
  while ((seen = given.load(std::memory_order_acquire)) < kNotifiers * kEach) this->wake_.wait_until(kNever);
  for (std::thread& notifier : notifiers) notifier.join();
  EXPECT_EQ(seen, kNotifiers * kEach);
}

/// Two threads that wake each other in turn: each hand-over must come through.
TYPED_TEST(WakeConformance, TwoThreadsWakeEachOtherInTurn) {
  constexpr int kTurns = 3000;
  TypeParam other;
  std::atomic<int> turn{0};
  std::thread partner([&] {
    for (int i = 0; i < kTurns; ++i) {
      while (turn.load(std::memory_order_acquire) != 2 * i + 1) other.wait_until(kNever);
      turn.store(2 * i + 2, std::memory_order_release);
      this->wake_.notify();
    }
  });
  for (int i = 0; i < kTurns; ++i) {
    turn.store(2 * i + 1, std::memory_order_release);
    other.notify();
    while (turn.load(std::memory_order_acquire) != 2 * i + 2) this->wake_.wait_until(kNever);
  }
  partner.join();
  EXPECT_EQ(turn.load(), 2 * kTurns);
}

}  // namespace
}  // namespace sluice
