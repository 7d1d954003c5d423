#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "option/options.hpp"
#include "sluice/trace/recorded_run.hpp"
#include "sluice/trace/timeline.hpp"

namespace sluice::tools {

/// Everything a run writes to files at its end.
struct Results {
  nlohmann::json summary;
  nlohmann::json decisions;
  std::vector<trace::MethodTimeline> timelines;
  /// What `summary.config` has run, if it was recorded.
  std::vector<trace::RecordedRun> recorded;
};

/// Writes one file in one step and prints its path.
/// @param what names it in what is printed
/// @throws Error naming the path
void write_named(const char* what, const std::string& path, const std::string& contents);

/// As SVG where the path ends in `.svg`, else as HTML.
[[nodiscard]] std::string draw_timelines(const std::string& path,
                                         const std::vector<trace::MethodTimeline>& timelines);

/// Writes the files that were asked for, each in one step, and prints their paths.
/// @throws Error naming the path
void write_results(const OutputOptions& output, const Results& results);

}  // namespace sluice::tools
