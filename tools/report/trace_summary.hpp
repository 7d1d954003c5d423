#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "sluice/trace/recorded_run.hpp"
#include "sluice/trace/run_summary.hpp"
#include "sluice/trace/stage_time.hpp"

namespace sluice::tools {

/// Where the time of a recorded run went.
struct TraceSummary {
  /// @param recording the run's; its settings tell what messages took on emulated devices
  /// @param recorded outlives the summary
  TraceSummary(const trace::Recording& recording, const trace::RecordedRun& recorded);

  [[nodiscard]] nlohmann::json to_json() const;

  const trace::RecordedRun& run;
  /// One a stage, as `reordered`.
  std::vector<trace::StageTime> stages;
  trace::StartOverhead overhead;
  trace::Distribution noticing;
  std::vector<trace::EdgeSummary> edges;
  std::vector<std::uint64_t> reordered;
};

}  // namespace sluice::tools
