#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace sluice {

/// What a task computes for one chunk and one microbatch.
enum class Pass : std::uint8_t {
  Forward,
  /// Gradient with respect to the chunk's inputs; the whole backward where it is not split.
  Backward,
  /// Gradient with respect to the chunk's parameters.
  WeightGrad,
};

inline constexpr std::size_t kPasses = 3;

using Chunk = std::uint16_t;
using Microbatch = std::uint32_t;

/// The unit of dispatch, eight bytes, ordered by microbatch, then chunk, then pass.
///
/// Aligned to its size, so that every compiler reads and writes an atomic one without a call.
struct alignas(8) Task {
  Microbatch microbatch = 0;
  Chunk chunk = 0;
  Pass pass = Pass::Forward;

  friend constexpr auto operator<=>(const Task&, const Task&) = default;
};

static_assert(sizeof(Task) == 8);

/// One letter: F, B or W.
[[nodiscard]] constexpr char letter(Pass pass) noexcept { return "FBW"[static_cast<std::size_t>(pass)]; }

/// `F(chunk 2, microbatch 5)`, the form used in error messages.
[[nodiscard]] std::string to_string(const Task& task);

}  // namespace sluice
