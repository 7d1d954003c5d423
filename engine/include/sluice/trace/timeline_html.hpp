#pragma once

#include <span>
#include <string>

#include "sluice/trace/timeline.hpp"

namespace sluice::trace {

/// A page that draws the timelines one above the other on the same time axis, one iteration at a
/// time. It is one file and loads nothing.
///
/// The numbers are in the element `timeline-data` as JSON: `columns`, the meaning of a span's
/// entries, and `methods[]` with `name`, `stages`, `iterations[]` (as IterationSummary) and `spans[]`.
/// @throws Error as `summarize` does
[[nodiscard]] std::string timeline_html(std::span<const MethodTimeline> methods);

}  // namespace sluice::trace
