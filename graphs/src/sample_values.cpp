#include "sample_values.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <dlpack/dlpack.h>

#include <algorithm>
#include <cstring>

#include "sluice/host/draws.hpp"

namespace sluice::graphs {
namespace {

/// Values before they repeat: a prime, so that rows of a tensor differ.
constexpr std::size_t kValues = 8191;
constexpr std::size_t kBitsOfByte = 8;
/// kDLBool, which old headers lack.
constexpr std::uint8_t kBool = 6;

template <typename T>
void put(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof value);
}

/// Writes one value of the type; false if there is none.
bool put_value(std::uint8_t code, std::size_t size, double uniform, std::byte* to) {
  const double real = 2 * uniform - 1;
  if (code == kDLFloat && size == sizeof(double)) return put(real, to), true;
  if (code == kDLFloat && size == sizeof(float)) return put(static_cast<float>(real), to), true;
  if (code == kDLFloat && size == sizeof(__half)) return put(__half_raw(__double2half(real)), to), true;
  if (code == kDLBfloat && size == sizeof(__nv_bfloat16))
    return put(__nv_bfloat16_raw(__double2bfloat16(real)), to), true;
  // The lowest byte, by x86's and the device's order.
  if (code == kDLInt || code == kDLUInt || code == kBool) {
    *to = std::byte{static_cast<unsigned char>(uniform < 0.5 ? 0 : 1)};
    return true;
  }
  return false;
}

}  // namespace

std::vector<std::byte> sample_values(std::uint8_t dtype_code, std::uint8_t dtype_bits, std::size_t bytes,
                                     std::uint64_t salt) {
  const std::size_t size = std::max<std::size_t>(dtype_bits / kBitsOfByte, 1);
  std::vector<std::byte> values(bytes);
  const std::size_t drawn = std::min(bytes / size, kValues);
  for (std::size_t i = 0; i < drawn; ++i) {
    if (!put_value(dtype_code, size, host::draws::uniform({salt, i}), &values[i * size])) return values;
  }
  if (drawn == 0) return values;
  for (std::size_t at = drawn * size; at < bytes; at += drawn * size)
    std::copy_n(values.begin(), std::min(drawn * size, bytes - at),
                values.begin() + static_cast<std::ptrdiff_t>(at));
  return values;
}

}  // namespace sluice::graphs
