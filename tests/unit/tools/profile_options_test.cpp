#include "option/profile_options.hpp"

#include <gtest/gtest.h>

#include <string>

#include "sluice/error.hpp"

namespace sluice::tools {
namespace {

std::string refusal(const std::string& text) {
  try {
    [[maybe_unused]] const auto parsed = parse_iterations(text);
    return "accepted";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(ParseIterations, TakesARangeOrOneIteration) {
  EXPECT_EQ(parse_iterations("10-12").first, 10U);
  EXPECT_EQ(parse_iterations("10-12").last, 12U);
  EXPECT_EQ(parse_iterations("0").first, 0U);
  EXPECT_EQ(parse_iterations("3").last, 3U);
  EXPECT_EQ(parse_iterations("18446744073709551615").last, ~0ULL);
}

TEST(ParseIterations, RefusesWhatIsNoRange) {
  for (const std::string text : {"x", "-", "1-", "-1", "1-2-3", "1 - 2", "+1", "1,2", "0x1", " 1", "1.5",
                                 "18446744073709551616", "1-18446744073709551616", "1--2"}) {
    EXPECT_EQ(refusal(text), "profile-iterations: '" + text + "' is not a range of iterations such as 10-12");
  }
  EXPECT_EQ(refusal("3-2"), "profile-iterations: '3-2' ends before it begins");
}

TEST(ProfileOptions, SaysWhichOptionWasGiven) {
  ProfileOptions options;
  EXPECT_FALSE(options.used());
  EXPECT_STREQ(options.given(), "");
  EXPECT_FALSE(options.iterations());
  options.profile_iterations = "1";
  EXPECT_TRUE(options.used());
  EXPECT_STREQ(options.given(), "profile-iterations");
  options.nvtx = true;
  EXPECT_STREQ(options.given(), "nvtx");
}

TEST(ProfileOptions, MustLieWithinTheRun) {
  ProfileOptions options;
  EXPECT_NO_THROW(options.check_within(0));
  options.profile_iterations = "2-5";
  EXPECT_NO_THROW(options.check_within(5));
  EXPECT_THROW(options.check_within(4), ConfigError);
}

}  // namespace
}  // namespace sluice::tools
