#include "difference.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <dlpack/dlpack.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace sluice::graphs {
namespace {

/// Holds every 64-bit whole number.
using Wide = long double;
using Decode = Wide (*)(const std::byte*);

template <typename T>
T load(const std::byte* from) {
  T value{};
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
Wide decode(const std::byte* from) {
  return static_cast<Wide>(load<T>(from));
}
template <>
Wide decode<__half>(const std::byte* from) {
  return static_cast<Wide>(__half2float(__half(load<__half_raw>(from))));
}
template <>
Wide decode<__nv_bfloat16>(const std::byte* from) {
  return static_cast<Wide>(__bfloat162float(__nv_bfloat16(load<__nv_bfloat16_raw>(from))));
}

/// By type and bytes; null if the values are not known to be numbers.
Decode decoder(std::uint8_t code, std::size_t bytes) {
  if (code == kDLFloat && bytes == sizeof(__half)) return &decode<__half>;
  if (code == kDLFloat && bytes == sizeof(float)) return &decode<float>;
  if (code == kDLFloat && bytes == sizeof(double)) return &decode<double>;
  if (code == kDLBfloat && bytes == sizeof(__nv_bfloat16)) return &decode<__nv_bfloat16>;
  if (code == kDLInt && bytes == sizeof(std::int8_t)) return &decode<std::int8_t>;
  if (code == kDLInt && bytes == sizeof(std::int16_t)) return &decode<std::int16_t>;
  if (code == kDLInt && bytes == sizeof(std::int32_t)) return &decode<std::int32_t>;
  if (code == kDLInt && bytes == sizeof(std::int64_t)) return &decode<std::int64_t>;
  if (code == kDLUInt && bytes == sizeof(std::uint16_t)) return &decode<std::uint16_t>;
  if (code == kDLUInt && bytes == sizeof(std::uint32_t)) return &decode<std::uint32_t>;
  if (code == kDLUInt && bytes == sizeof(std::uint64_t)) return &decode<std::uint64_t>;
  return nullptr;
}

/// Largest finite magnitude.
Wide largest_of(std::span<const std::byte> values, std::size_t step, Decode decode) {
  Wide largest = 0;
  for (std::size_t at = 0; at + step <= values.size(); at += step) {
    const Wide magnitude = std::abs(decode(&values[at]));
    if (std::isfinite(magnitude)) largest = std::max(largest, magnitude);
  }
  return largest;
}

void add_element(Wide expected, Wide found, Wide largest, Difference& difference) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (!std::isfinite(expected) || !std::isfinite(found)) {
    difference.max_abs = infinity;
    difference.max_rel = infinity;
    return;
  }
  const Wide distance = std::abs(found - expected);
  if (distance == 0) return;
  difference.max_abs = std::max(difference.max_abs, static_cast<double>(distance));
  difference.max_rel = std::max(difference.max_rel, static_cast<double>(distance / largest));
}

}  // namespace

void add_difference(std::span<const std::byte> expected, std::span<const std::byte> found,
                    std::uint8_t dtype_code, std::uint8_t dtype_bits, const std::string& name,
                    Difference& difference) {
  constexpr std::size_t bits_of_byte = 8;
  if (expected.empty() || std::memcmp(expected.data(), found.data(), expected.size()) == 0) return;
  const std::size_t size = std::max<std::size_t>(dtype_bits / bits_of_byte, 1);
  const Decode decode = decoder(dtype_code, size);
  const std::size_t step = decode == nullptr ? 1 : size;
  const Wide largest =
      decode == nullptr ? 0 : std::max(largest_of(expected, step, decode), largest_of(found, step, decode));
  for (std::size_t at = 0; at + step <= expected.size(); at += step) {
    if (std::memcmp(&expected[at], &found[at], step) == 0) continue;
    if (decode == nullptr) {
      ++difference.bytes;
      if (difference.none()) difference.where = fmt::format("byte {} of {}", at, name);
      continue;
    }
    const Wide was = decode(&expected[at]);
    const Wide is = decode(&found[at]);
    add_element(was, is, largest, difference);
    if (difference.none()) {
      difference.where = fmt::format("element {} of {} ({:g} instead of {:g})", at / step, name,
                                     static_cast<double>(is), static_cast<double>(was));
    }
  }
}

}  // namespace sluice::graphs
