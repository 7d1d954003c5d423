#include "sluice/torch/capture_check_input.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

#include "sluice/error.hpp"

namespace sluice::capture {
namespace {

constexpr std::array<std::string_view, 10> kTypes = {"float32", "float64", "float16", "bfloat16", "int64",
                                                     "int32",   "int16",   "int8",    "uint8",    "bool"};
/// Largest input, in elements.
constexpr std::int64_t kMostElements = std::int64_t{1} << 32U;

[[noreturn]] void refuse(const std::string& text, const std::string& reason) {
  throw ConfigError("input", fmt::format("'{}': {}", text, reason));
}

template <typename Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole_text = error == std::errc{} && end == text.data() + text.size();
  return whole_text ? std::optional(number) : std::nullopt;
}

std::vector<std::int64_t> parse_shape(const std::string& text, std::string_view sizes) {
  std::vector<std::int64_t> shape;
  std::int64_t elements = 1;
  while (!sizes.empty()) {
    const std::size_t comma = sizes.find(',');
    const std::string_view one = sizes.substr(0, comma);
    const auto size = number_in<std::int64_t>(one);
    if (!size || *size < 1) refuse(text, fmt::format("'{}' is not a size, a whole number from 1", one));
    if (*size > kMostElements / elements) refuse(text, "is larger than 2^32 elements");
    elements *= *size;
    shape.push_back(*size);
    if (comma == std::string_view::npos) break;
    sizes.remove_prefix(comma + 1);
    if (sizes.empty()) refuse(text, "a size is missing after the last comma");
  }
  return shape;
}

void parse_number(Input& input, const std::string& text, std::string_view kind, std::string_view value) {
  if (kind == "int") {
    const auto whole = number_in<std::int64_t>(value);
    if (!whole) refuse(text, "int= takes a whole number");
    input.kind = Input::Kind::Int;
    input.whole = *whole;
  } else if (kind == "float") {
    const auto number = number_in<double>(value);
    if (!number || !std::isfinite(*number)) refuse(text, "float= takes a number");
    input.kind = Input::Kind::Float;
    input.value = *number;
  } else if (kind == "bool") {
    if (value != "true" && value != "false") refuse(text, "bool= takes true or false");
    input.kind = Input::Kind::Bool;
    input.whole = value == "true" ? 1 : 0;
  } else {
    refuse(text, "a number is int=, float= or bool=");
  }
}

void parse_bound(Input& input, const std::string& text, std::string_view value) {
  const auto bound = number_in<std::int64_t>(value);
  if (!bound || *bound < 1) refuse(text, "the bound after ':' is a whole number from 1");
  if (!input.dtype.starts_with("int") && input.dtype != "uint8")
    refuse(text, "only a tensor of whole numbers has a bound");
  const std::int64_t most = input.dtype == "int8"    ? std::numeric_limits<std::int8_t>::max()
                            : input.dtype == "uint8" ? std::numeric_limits<std::uint8_t>::max()
                            : input.dtype == "int16" ? std::numeric_limits<std::int16_t>::max()
                            : input.dtype == "int32" ? std::numeric_limits<std::int32_t>::max()
                                                     : std::numeric_limits<std::int64_t>::max();
  if (*bound > most) refuse(text, fmt::format("{} holds no value below {}", input.dtype, *bound));
  input.bound = *bound;
}

}  // namespace

Input Input::parse(const std::string& text) {
  Input input;
  const std::string_view all = text;
  const std::size_t open = all.find('[');
  if (const std::size_t equals = all.find('='); equals < open) {
    parse_number(input, text, all.substr(0, equals), all.substr(equals + 1));
    return input;
  }
  const std::size_t close = all.find(']');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open)
    refuse(text, "write dtype[sizes] for a tensor, as float32[4,64,96], or int=3 for a number");
  input.dtype = all.substr(0, open);
  std::string known;
  for (const std::string_view type : kTypes) {
    known.append(known.empty() ? "" : ", ").append(type);
    if (input.dtype == type) known.clear();
    if (input.dtype == type) break;
  }
  if (!known.empty()) refuse(text, fmt::format("'{}' is not a dtype: {}", input.dtype, known));
  input.shape = parse_shape(text, all.substr(open + 1, close - open - 1));
  const std::string_view rest = all.substr(close + 1);
  if (rest.starts_with(':')) {
    parse_bound(input, text, rest.substr(1));
  } else if (!rest.empty()) {
    refuse(text, fmt::format("'{}' follows the sizes: only :BOUND may", rest));
  }
  return input;
}

std::string to_string(const Input& input) {
  switch (input.kind) {
    case Input::Kind::Int:
      return fmt::format("int={}", input.whole);
    case Input::Kind::Float:
      return fmt::format("float={}", input.value);
    case Input::Kind::Bool:
      return fmt::format("bool={}", input.whole != 0);
    case Input::Kind::Tensor:
      break;
  }
  std::string sizes;
  for (const std::int64_t size : input.shape) sizes += fmt::format("{}{}", sizes.empty() ? "" : ",", size);
  const bool bounded = input.dtype.starts_with("int") || input.dtype == "uint8";
  return fmt::format("{}[{}]{}", input.dtype, sizes, bounded ? fmt::format(":{}", input.bound) : "");
}

}  // namespace sluice::capture
