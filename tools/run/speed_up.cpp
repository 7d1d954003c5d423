#include "run/speed_up.hpp"

#include <algorithm>

namespace sluice::tools {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

SpeedUp speed_up(std::span<const double> first, std::span<const double> other) {
  SpeedUp result;
  const double other_median = median({other.begin(), other.end()});
  if (other_median <= 0) return result;
  result.of_medians = median({first.begin(), first.end()}) / other_median;
  std::vector<double> each;
  each.reserve(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) each.push_back(first[i] / other[i]);
  const auto [lowest, highest] = std::minmax_element(each.begin(), each.end());
  result.lowest = *lowest;
  result.highest = *highest;
  return result;
}

}  // namespace sluice::tools
