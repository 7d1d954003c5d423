#pragma once

#include <string>

#include "sluice/trace/recorded_run.hpp"

namespace sluice::tools {

/// `FILE` or `FILE#METHOD`: a recording, and one of its runs.
struct TraceInput {
  std::string path;
  /// Empty for the first.
  std::string method;

  /// A file whose own name has a `#` is taken as it is.
  [[nodiscard]] static TraceInput parse(const std::string& argument);
};

/// @throws ConfigError naming the file and the entry at fault, or `file` if it cannot be read
[[nodiscard]] trace::Recording load_recording(const std::string& path);

/// The run that the input names.
/// @throws ConfigError naming the file, `method` and what there is
[[nodiscard]] const trace::RecordedRun& select_run(const trace::Recording& recording,
                                                   const TraceInput& input);

/// The recorded iterations, added up, in seconds.
[[nodiscard]] double total_seconds(const trace::RecordedRun& run);

}  // namespace sluice::tools
