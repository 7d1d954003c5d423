#include "option/units.hpp"

#include <gtest/gtest.h>

#include "sluice/error.hpp"

namespace sluice::tools {
namespace {

using namespace std::chrono_literals;

TEST(Units, ATimeIsANumberAndAUnit) {
  EXPECT_EQ(parse_duration("x", "250ns"), 250ns);
  EXPECT_EQ(parse_duration("x", "0.5us"), 500ns);
  EXPECT_EQ(parse_duration("x", "10ms"), 10ms);
  EXPECT_EQ(parse_duration("x", "600s"), 600s);
  EXPECT_EQ(parse_duration("x", "0s"), 0s);
  EXPECT_EQ(parse_nanoseconds("x", "0.25ns"), 0.25);
}

TEST(Units, EverythingElseIsRefusedNamingTheField) {
  for (const char* text :
       {"", "ms", "10", "10 ms", "10mss", "10h", "-1ms", "601s", "nans", "infs", "1e999s", "+1s"}) {
    try {
      (void)parse_duration("here", text);
      FAIL() << text;
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.field(), "here");
    }
  }
}

TEST(Units, QuotesAreShortAndOnOneLine) {
  EXPECT_EQ(in_quotes("10ms"), "'10ms'");
  EXPECT_EQ(in_quotes("a\nb\x7f"), "'a?b?'");
  EXPECT_EQ(in_quotes(std::string(100, 'x')).size(), 40U + 5U);
}

}  // namespace
}  // namespace sluice::tools
