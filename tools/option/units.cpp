#include "option/units.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <system_error>

#include "sluice/error.hpp"

namespace sluice::tools {
namespace {

struct Unit {
  std::string_view name;
  double ns;
};
constexpr std::array<Unit, 4> kUnits{{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};
constexpr double kLongestNs = std::chrono::duration<double, std::nano>(kLongestTime).count();

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr std::size_t longest = 40;
  std::string out = "'";
  for (const char c : text.substr(0, longest)) out += c < ' ' || c > '~' ? '?' : c;
  return out + (text.size() > longest ? "...'" : "'");
}

double parse_nanoseconds(const std::string& field, std::string_view text) {
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range)
    throw ConfigError(field, fmt::format("{} is out of range", in_quotes(text)));
  const std::string_view unit = text.substr(static_cast<std::size_t>(rest - text.data()));
  for (const Unit& known : kUnits) {
    if (error != std::errc{} || unit != known.name) continue;
    const double ns = value * known.ns;
    if (!(ns >= 0 && ns <= kLongestNs))
      throw ConfigError(field, fmt::format("{} does not lie in 0 to 10 minutes", in_quotes(text)));
    return ns;
  }
  throw ConfigError(
      field, fmt::format("{} is not a time such as 10ms: a number and ns, us, ms or s", in_quotes(text)));
}

Duration parse_duration(const std::string& field, std::string_view text) {
  return Duration(std::llround(parse_nanoseconds(field, text)));
}

}  // namespace sluice::tools
