#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice::gpt {

/// SHA-256 of the elements of one parameter.
struct ParameterDigest {
  /// Position in the model's canonical order, which does not depend on how the model is cut.
  std::uint32_t index = 0;
  std::array<std::uint8_t, 32> sha256{};
};

/// @throws Error if the digest cannot be computed
[[nodiscard]] std::array<std::uint8_t, 32> sha256(std::span<const std::byte> bytes);

/// Identifies all parameters of a model: the SHA-256, in hexadecimal, of the digests of its
/// parameters in canonical order.
/// @param digests of all ranks together, in any order
/// @throws Error if a parameter is missing, or if the copies of one that several ranks have differ
[[nodiscard]] std::string parameters_sha256(std::vector<ParameterDigest> digests);

}  // namespace sluice::gpt
