#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

namespace sluice::host {

/// `text` in backquotes, fit for a one-line message: shortened, and without control characters.
inline std::string quoted(std::string_view text) {
  constexpr std::size_t longest = 40;
  std::string out = "`";
  for (const char c : text.substr(0, longest)) out += c < ' ' || c > '~' ? '?' : c;
  return out + (text.size() > longest ? "...`" : "`");
}

/// A number at the start of a text, and what follows it.
struct LeadingNumber {
  double value = 0;
  std::string_view rest;
  /// invalid_argument: no number there; result_out_of_range: no double can hold it.
  std::errc error{};
};

/// Reads a decimal number; independent of the locale.
inline LeadingNumber leading_number(std::string_view text) {
  LeadingNumber number;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number.value);
  number.rest = text.substr(static_cast<std::size_t>(end - text.data()));
  number.error = error;
  return number;
}

}  // namespace sluice::host
