#include "command/command_line.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

namespace sluice::tools {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

template <std::size_t Count>
int run(const std::array<const char*, Count>& arguments) {
  return run_command_line(static_cast<int>(Count), arguments.data());
}

TEST(CommandLine, RunsACommand) {
  testing::internal::CaptureStdout();
  const int code =
      run(std::array{"sluice", "schedule", "1f1b", "--stages", "2", "--microbatches", "2", "--csv", "-"});
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  EXPECT_EQ(code, 0);
}

TEST(CommandLine, SaysWhatItDoesNotKnow) {
  testing::internal::CaptureStderr();
  const int code = run(std::array{"sluice", "fly"});
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, StartsWith("sluice: 'fly' is not a command"));
  EXPECT_THAT(said, HasSubstr("simulate"));
  EXPECT_EQ(code, 2);
}

TEST(CommandLine, NamesTheFieldThatIsWrong) {
  testing::internal::CaptureStderr();
  const int code = run(std::array{"sluice", "simulate", "--emulate", "f=1ms,b=2ms", "--limit", "0"});
  EXPECT_THAT(testing::internal::GetCapturedStderr(), StartsWith("sluice: limit: "));
  EXPECT_EQ(code, 2);
}

}  // namespace
}  // namespace sluice::tools
