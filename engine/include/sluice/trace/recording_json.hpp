#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sluice/trace/recorded_run.hpp"

namespace sluice::trace {

inline constexpr std::string_view kRecordingFormat = "sluice-recording";
inline constexpr std::uint64_t kRecordingVersion = 1;
/// Latest time of a recording, in nanoseconds: eleven days.
inline constexpr Time kLatestRecorded{1'000'000'000'000'000};

/// The recording as one JSON document:
/// `{"format", "version", "settings", "runs": [{"method", "pipeline": {"chunks": [[stage, splittable]],
/// "edges": [[from, to]], "microbatches", "split"}, "limits", "rules", "launch_ahead", "lost", "iterations",
/// "tasks", "messages", "agreements", "decisions"}]}`, where the last five are tables,
/// `{"columns": [name...], "rows": [[number...]...]}`, of whole numbers and times in nanoseconds.
/// @throws Error if the settings are not a JSON object
[[nodiscard]] std::string write_recording(const Recording& recording);

/// Reads what `write_recording` wrote. Takes any bytes; memory is in proportion to their number.
/// @throws ConfigError naming the entry, as in `runs[0].tasks[17].end`, that is missing, of a wrong type or
///         out of range, or contradicts another: an end before a start, a second copy of a task or message,
///         an unknown chunk, edge, stage or iteration, edges that form a cycle; or `recording` and the
///         position for what is no JSON
[[nodiscard]] Recording read_recording(std::string_view bytes);

}  // namespace sluice::trace
