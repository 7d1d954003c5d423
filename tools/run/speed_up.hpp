#pragma once

#include <span>
#include <vector>

namespace sluice::tools {

/// Median; of an even number of values the mean of the two in the middle; 0 of none.
[[nodiscard]] double median(std::vector<double> values);

/// Speed-up over the first method, iteration by iteration or seed by seed: both saw the same draws.
struct SpeedUp {
  double of_medians = 1;
  double lowest = 1;
  double highest = 1;
};

/// @param first,other seconds, as many of one as of the other; ones if the other took no time
[[nodiscard]] SpeedUp speed_up(std::span<const double> first, std::span<const double> other);

}  // namespace sluice::tools
