#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "sluice/trace/timeline.hpp"

namespace sluice::trace {

/// A picture of one iteration, the methods one above the other on the same time axis: one SVG
/// document without scripts that brings its own background. A method that did not run the iteration
/// says so.
///
/// Makespan and bubble share are there to read; the numbers behind the picture are not in it, take
/// them from the results or from `timeline_html`.
/// @param iteration by default, of the iterations that most methods ran, the last one
/// @throws Error as `summarize` does
[[nodiscard]] std::string timeline_svg(std::span<const MethodTimeline> methods,
                                       std::optional<std::uint64_t> iteration = std::nullopt);

}  // namespace sluice::trace
