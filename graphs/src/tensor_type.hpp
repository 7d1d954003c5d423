#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::graphs {

struct TensorType {
  std::uint8_t code = 0;  ///< DLDataTypeCode
  std::uint8_t bits = 0;

  friend constexpr bool operator==(const TensorType&, const TensorType&) = default;
};

/// `float32`, `bfloat16`, `uint8`; `type7_8` for a code without a name.
[[nodiscard]] std::string name_of(TensorType type);
/// Nothing if no type has this name.
[[nodiscard]] std::optional<TensorType> type_named(std::string_view name);

}  // namespace sluice::graphs
