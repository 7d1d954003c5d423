#pragma once

#include <span>
#include <string>

#include "sluice/trace/recorded_run.hpp"
#include "sluice/trace/timeline.hpp"

namespace sluice::trace {

/// The tasks of a recorded run, for the timelines.
[[nodiscard]] MethodTimeline timeline_of(const RecordedRun& run);

/// Recorded runs as JSON for chrome://tracing and ui.perfetto.dev: as `chrome_trace` of their timelines, with
/// an arrow for each message from its sending to its arrival (flow events, `ph` s and f) and a counter of the
/// microbatches in flight on each stage (`ph` C).
[[nodiscard]] std::string chrome_trace(std::span<const RecordedRun> runs);

/// Recorded runs as comma-separated values: a line of names, then a line for each task and each message.
/// Times are nanoseconds since the start of the run's first iteration; what a line's kind does not have is
/// empty.
[[nodiscard]] std::string recorded_csv(std::span<const RecordedRun> runs);

}  // namespace sluice::trace
