#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::graphs {

/// Bytes of a tensor of reproducible values that any code can take: floating-point ones between -1 and 1,
/// whole ones 0 or 1, zeros for what is neither.
/// @param dtype_code DLDataTypeCode
[[nodiscard]] std::vector<std::byte> sample_values(std::uint8_t dtype_code, std::uint8_t dtype_bits,
                                                   std::size_t bytes, std::uint64_t salt);

}  // namespace sluice::graphs
