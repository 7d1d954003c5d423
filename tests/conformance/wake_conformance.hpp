#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "sluice/clock.hpp"
#include "sluice/host/steady_clock.hpp"

/// What every wake must do.
namespace sluice::conformance {

using namespace std::chrono_literals;

template <typename Implementation>
class WakeConformance : public ::testing::Test {
 protected:
  [[nodiscard]] Time in(Duration duration) const { return clock_.now() + duration; }

  host::SteadyClock clock_;
  Implementation wake_;
};

TYPED_TEST_SUITE_P(WakeConformance);

TYPED_TEST_P(WakeConformance, ReturnsWhenTheDeadlineIsPast) {
  this->wake_.wait_until(Time{0});
  this->wake_.wait_until(this->clock_.now());
}

/// Would hang if the notification were lost: nobody else notifies.
TYPED_TEST_P(WakeConformance, ANotificationBeforeTheWaitIsNotLost) {
  for (int i = 0; i < 100; ++i) {
    this->wake_.notify();
    this->wake_.wait_until(kNever);
  }
}

TYPED_TEST_P(WakeConformance, ReturnsAtTheDeadlineWithoutANotification) {
  this->wake_.wait_until(this->in(1ms));
  this->wake_.wait_until(this->in(1us));
}

TYPED_TEST_P(WakeConformance, SeveralNotificationsEndOneWait) {
  for (int i = 0; i < 5; ++i) this->wake_.notify();
  this->wake_.wait_until(kNever);
  this->wake_.wait_until(this->in(1ms));
}

/// The wake itself orders what was written before the notification: the flag does not.
TYPED_TEST_P(WakeConformance, WhatWasWrittenBeforeANotificationIsSeenAfterTheWait) {
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
TYPED_TEST_P(WakeConformance, NoHandOverIsLostWithManyNotifiers) {
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
TYPED_TEST_P(WakeConformance, TwoThreadsWakeEachOtherInTurn) {
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

REGISTER_TYPED_TEST_SUITE_P(WakeConformance, ReturnsWhenTheDeadlineIsPast,
                            ANotificationBeforeTheWaitIsNotLost, ReturnsAtTheDeadlineWithoutANotification,
                            SeveralNotificationsEndOneWait,
                            WhatWasWrittenBeforeANotificationIsSeenAfterTheWait,
                            NoHandOverIsLostWithManyNotifiers, TwoThreadsWakeEachOtherInTurn);

}  // namespace sluice::conformance
