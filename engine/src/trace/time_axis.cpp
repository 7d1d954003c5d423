#include "time_axis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace sluice::trace {
namespace {

struct Unit {
  double per_second;
  std::string_view name;
};

Unit unit_for(double end_s) {
  if (end_s < 2e-3) return {1e6, "\u00b5s"};
  if (end_s < 2) return {1e3, "ms"};
  return {1, "s"};
}

/// 1, 2 or 5 times a power of ten, at least `rough_s`.
double round_step(double rough_s) {
  const double power = std::pow(10.0, std::floor(std::log10(rough_s)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough_s) return factor * power;
  }
  return 10 * power;
}

}  // namespace

std::vector<Tick> axis_ticks(double end_s, int most) {
  const double step_s = round_step(end_s / most);
  const Unit unit = unit_for(end_s);
  const int decimals =
      std::max(0, static_cast<int>(-std::floor(std::log10(step_s * unit.per_second) + 1e-9)));
  std::vector<Tick> ticks;
  for (int i = 0; i <= most && i * step_s <= end_s; ++i) {
    const double time_s = i * step_s;
    ticks.push_back({time_s, fmt::format("{:.{}f} {}", time_s * unit.per_second, decimals, unit.name)});
  }
  return ticks;
}

std::string format_time(double seconds) {
  if (seconds == 0) return "0";
  if (seconds < 1e-3) return fmt::format("{:.1f} \u00b5s", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.{}f} ms", seconds * 1e3, seconds < 0.1 ? 3 : 2);
  return fmt::format("{:.4f} s", seconds);
}

}  // namespace sluice::trace
