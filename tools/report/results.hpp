#pragma once

#include <nlohmann/json.hpp>
#include <span>

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

/// Writes the files that were asked for, each in one step, and prints their paths.
/// @throws Error naming the path
void write_results(const OutputOptions& output, const Results& results);

}  // namespace sluice::tools
