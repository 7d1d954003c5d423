#include "gpu/apart.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "sluice/error.hpp"

namespace sluice::microbench {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

std::string error_of(const std::function<nlohmann::json()>& work, std::chrono::seconds longest = 60s) {
  try {
    return "no error, but " + run_apart(work, longest).dump();
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(RunApart, GivesWhatTheWorkGives) {
  const std::string large(300'000, 'x');
  const nlohmann::json result = run_apart(
      [&] {
        return nlohmann::json{{"process", getpid()}, {"text", large}};
      },
      60s);
  EXPECT_NE(result.at("process"), getpid());
  EXPECT_EQ(result.at("text"), large);
}

TEST(RunApart, SaysHowTheWorkFailed) {
  EXPECT_EQ(error_of([]() -> nlohmann::json { throw ConfigError("device", "there is none"); }),
            "device: there is none");
  EXPECT_THAT(error_of([]() -> nlohmann::json { _exit(3); }), HasSubstr("status 3"));
  EXPECT_THAT(error_of([]() -> nlohmann::json {
                raise(SIGKILL);
                return {};
              }),
              HasSubstr("signal 9"));
}

TEST(RunApart, EndsWorkThatDoesNotEnd) {
  EXPECT_THAT(error_of(
                  []() -> nlohmann::json {
                    for (;;) pause();
                  },
                  1s),
              HasSubstr("took longer than 1 s"));
}

/// The processes it started end with it.
TEST(RunApart, LeavesNoProcesses) {
  const nlohmann::json started = run_apart(
      [] {
        const pid_t process = fork();
        if (process == 0) {
          close(STDOUT_FILENO);
          for (int descriptor = 3; descriptor < 64; ++descriptor) close(descriptor);
          for (;;) pause();
        }
        return nlohmann::json(process);
      },
      60s);
  const auto process = started.get<pid_t>();
  for (int look = 0; look < 10'000 && kill(process, 0) == 0; ++look) usleep(1000);
  EXPECT_NE(kill(process, 0), 0);
}

}  // namespace
}  // namespace sluice::microbench
