#include "sluice/process/exit_guard.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>

namespace sluice::process {
namespace {

using namespace std::chrono_literals;

TEST(ExitGuardDeathTest, EndsAProcessThatDoesNotEndByItself) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        ExitGuard guard(100ms);
        guard.arm("rank 2 died");
        guard.arm("something later");
        std::this_thread::sleep_for(60s);
      },
      testing::ExitedWithCode(1), "^rank 2 died\n$");
}

TEST(ExitGuardDeathTest, LeavesAProcessAloneThatEndsInTime) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        {
          ExitGuard guard(60s);
          guard.arm("rank 2 died");
        }
        std::_Exit(7);
      },
      testing::ExitedWithCode(7), "^$");
}

TEST(ExitGuard, UnarmedDoesNothing) { const ExitGuard guard(1ns); }

}  // namespace
}  // namespace sluice::process
