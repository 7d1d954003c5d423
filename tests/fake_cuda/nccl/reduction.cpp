#include "reduction.hpp"

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace fakenccl {
namespace {

/// Integers wrap around, as on a device.
template <typename T>
using Arithmetic =
    typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;

template <typename T>
T combined(T a, T b, ncclRedOp_t operation) {
  using Number = Arithmetic<T>;
  switch (operation) {
    case ncclMin:
      return std::min(a, b);
    case ncclMax:
      return std::max(a, b);
    case ncclProd:
      return static_cast<T>(static_cast<Number>(a) * static_cast<Number>(b));
    default:
      return static_cast<T>(static_cast<Number>(a) + static_cast<Number>(b));
  }
}

template <typename T>
void reduce_as(void* into, const void* from, std::size_t count, ncclRedOp_t operation) {
  auto* a = static_cast<T*>(into);
  const auto* b = static_cast<const T*>(from);
  for (std::size_t i = 0; i < count; ++i) a[i] = combined(a[i], b[i], operation);
}

/// Calls `body` with a number of the type; false if there is none.
template <typename Body>
bool with_type(ncclDataType_t type, Body body) {
  switch (type) {
    case ncclInt8:
      return body(std::int8_t{}), true;
    case ncclUint8:
      return body(std::uint8_t{}), true;
    case ncclInt32:
      return body(std::int32_t{}), true;
    case ncclUint32:
      return body(std::uint32_t{}), true;
    case ncclInt64:
      return body(std::int64_t{}), true;
    case ncclUint64:
      return body(std::uint64_t{}), true;
    case ncclFloat32:
      return body(float{}), true;
    case ncclFloat64:
      return body(double{}), true;
    default:
      return false;
  }
}

}  // namespace

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      return 1;
    default:
      break;
  }
  std::size_t bytes = 0;
  static_cast<void>(with_type(type, [&](auto number) { bytes = sizeof number; }));
  return bytes;
}

bool reduces(ncclDataType_t type, ncclRedOp_t operation) {
  const bool known_operation = operation >= ncclSum && operation <= ncclMin;
  return known_operation && with_type(type, [](auto) {});
}

void reduce(void* into, const void* from, std::size_t count, ncclDataType_t type, ncclRedOp_t operation) {
  static_cast<void>(
      with_type(type, [&](auto number) { reduce_as<decltype(number)>(into, from, count, operation); }));
}

}  // namespace fakenccl
