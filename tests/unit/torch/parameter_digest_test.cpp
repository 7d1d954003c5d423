#include "sluice/torch/parameter_digest.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "sluice/error.hpp"

namespace sluice::gpt {
namespace {

std::array<std::uint8_t, 32> digest_of(const std::string& text) {
  return sha256(std::as_bytes(std::span(text)));
}

TEST(Sha256, OfAbcIsThatOfTheStandard) {
  const std::array<std::uint8_t, 32> digest = digest_of("abc");  // FIPS 180-2, appendix B.1
  EXPECT_EQ(digest[0], 0xba);
  EXPECT_EQ(digest[1], 0x78);
  EXPECT_EQ(digest[30], 0x15);
  EXPECT_EQ(digest[31], 0xad);
}

TEST(ParametersSha256, IsThatOfTheJoinedDigestsInCanonicalOrder) {
  const auto a = digest_of("a");
  const auto b = digest_of("b");
  std::string joined(a.begin(), a.end());
  joined.append(b.begin(), b.end());
  const auto expected = digest_of(joined);
  const std::string text = parameters_sha256({{1, b}, {0, a}});
  ASSERT_EQ(text.size(), 64U);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(std::stoul(text.substr(2 * i, 2), nullptr, 16), expected[i]);
  }
  EXPECT_NE(parameters_sha256({{0, b}, {1, a}}), text);
}

TEST(ParametersSha256, CountsEqualTiedCopiesOnce) {
  const auto a = digest_of("a");
  const auto b = digest_of("b");
  EXPECT_EQ(parameters_sha256({{0, a}, {1, b}, {0, a}}), parameters_sha256({{0, a}, {1, b}}));
}

TEST(ParametersSha256, RefusesTiedCopiesThatDiffer) {
  try {
    (void)parameters_sha256({{0, digest_of("a")}, {0, digest_of("b")}});
    FAIL() << "accepted copies that differ";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("parameter 0 differ"));
  }
}

TEST(ParametersSha256, RefusesAMissingParameter) {
  try {
    (void)parameters_sha256({{0, digest_of("a")}, {2, digest_of("c")}});
    FAIL() << "accepted a gap";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("parameter 1 is missing"));
  }
}

}  // namespace
}  // namespace sluice::gpt
