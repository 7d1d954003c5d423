#include "sluice/torch/parameter_digest.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <string_view>

#include "sluice/error.hpp"

namespace sluice::gpt {
namespace {

std::string hexadecimal(std::span<const std::uint8_t> bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += digits[byte >> 4U];
    text += digits[byte & 15U];
  }
  return text;
}

}  // namespace

std::array<std::uint8_t, 32> sha256(std::span<const std::byte> bytes) {
  std::array<std::uint8_t, 32> digest{};
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1) {
    throw Error("cannot compute a SHA-256");
  }
  return digest;
}

std::string parameters_sha256(std::vector<ParameterDigest> digests) {
  std::ranges::stable_sort(digests, {}, &ParameterDigest::index);
  std::vector<std::uint8_t> joined;
  std::uint32_t expected = 0;
  for (std::size_t i = 0; i < digests.size(); ++i) {
    const ParameterDigest& digest = digests[i];
    if (i > 0 && digest.index == digests[i - 1].index) {
      if (digest.sha256 == digests[i - 1].sha256) continue;
      throw Error("the copies of parameter " + std::to_string(digest.index) + " differ");
    }
    if (digest.index != expected) throw Error("parameter " + std::to_string(expected) + " is missing");
    joined.insert(joined.end(), digest.sha256.begin(), digest.sha256.end());
    ++expected;
  }
  return hexadecimal(sha256(std::as_bytes(std::span(joined))));
}

}  // namespace sluice::gpt
