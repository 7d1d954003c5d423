#pragma once

#include <string>
#include <string_view>

#include "sluice/clock.hpp"

namespace sluice::tools {

inline constexpr Duration kLongestTime = std::chrono::minutes(10);

/// Nanoseconds of `10ms`: a number and one of ns, us, ms and s; 0 to 10 minutes.
/// @throws ConfigError naming the field
[[nodiscard]] double parse_nanoseconds(const std::string& field, std::string_view text);
/// The same, to the nanosecond.
[[nodiscard]] Duration parse_duration(const std::string& field, std::string_view text);

/// Text from outside in quotes, fit for a one-line message: shortened, and without control characters.
[[nodiscard]] std::string in_quotes(std::string_view text);

}  // namespace sluice::tools
