#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sluice::graphs {

/// How two runs of a task differ.
struct Difference {
  double max_abs = 0;
  double max_rel = 0;  ///< of the largest value in the same memory
  std::uint64_t bytes = 0;
  /// What differs first.
  std::string where;

  [[nodiscard]] bool none() const noexcept { return where.empty(); }
};

/// Adds how `found` differs from `expected`: element by element where the type is a floating-point one of 16,
/// 32 or 64 bits or a whole number, else byte by byte. Values that are the same bit for bit, NaN included,
/// agree; another NaN or infinity is infinitely far.
/// @param dtype_code DLDataTypeCode
void add_difference(std::span<const std::byte> expected, std::span<const std::byte> found,
                    std::uint8_t dtype_code, std::uint8_t dtype_bits, const std::string& name,
                    Difference& difference);

}  // namespace sluice::graphs
