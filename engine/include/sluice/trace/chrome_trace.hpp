#pragma once

#include <span>
#include <string>

#include "sluice/trace/timeline.hpp"

namespace sluice::trace {

/// The timelines as JSON for chrome://tracing and ui.perfetto.dev: a process for each method, a
/// thread for each stage, times in microseconds.
///
/// Format: "Trace Event Format", Google, 2016; complete events (`ph` X) and metadata (`ph` M).
/// @throws Error as `summarize` does
[[nodiscard]] std::string chrome_trace(std::span<const MethodTimeline> methods);

}  // namespace sluice::trace
