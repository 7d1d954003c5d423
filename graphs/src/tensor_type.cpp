#include "tensor_type.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

namespace sluice::graphs {
namespace {

/// DLDataTypeCode's names.
constexpr std::array<std::pair<std::uint8_t, std::string_view>, 6> kNames{
    {{0, "int"}, {1, "uint"}, {2, "float"}, {4, "bfloat"}, {5, "complex"}, {6, "bool"}}};
constexpr std::string_view kUnnamed = "type";

/// All of the text as a number that fits.
std::optional<std::uint8_t> number(std::string_view text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (value > std::numeric_limits<std::uint8_t>::max()) return std::nullopt;
  return static_cast<std::uint8_t>(value);
}

}  // namespace

std::string name_of(TensorType type) {
  const auto* const found =
      std::ranges::find(kNames, type.code, [](const auto& entry) { return entry.first; });
  if (found == kNames.end()) return fmt::format("{}{}_{}", kUnnamed, type.code, type.bits);
  return fmt::format("{}{}", found->second, type.bits);
}

std::optional<TensorType> type_named(std::string_view name) {
  for (const auto& [code, prefix] : kNames) {
    if (!name.starts_with(prefix)) continue;
    const auto bits = number(name.substr(prefix.size()));
    if (bits.has_value()) return TensorType{code, *bits};
  }
  if (!name.starts_with(kUnnamed)) return std::nullopt;
  const std::string_view rest = name.substr(kUnnamed.size());
  const std::size_t separator = rest.find('_');
  if (separator == std::string_view::npos) return std::nullopt;
  const auto code = number(rest.substr(0, separator));
  const auto bits = number(rest.substr(separator + 1));
  if (!code.has_value() || !bits.has_value()) return std::nullopt;
  return TensorType{*code, *bits};
}

}  // namespace sluice::graphs
