#pragma once

#include <string>
#include <vector>

namespace sluice::trace {

struct Tick {
  double time_s = 0;
  std::string label;
};

/// Round times from 0 to `end_s` (above 0), at most `most` + 1 of them, labelled in one unit.
[[nodiscard]] std::vector<Tick> axis_ticks(double end_s, int most);

/// A duration for people, in a unit of its size.
[[nodiscard]] std::string format_time(double seconds);

}  // namespace sluice::trace
