#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sluice/pipeline.hpp"
#include "sluice/trace/run_diff.hpp"

namespace sluice::tools {

/// A part of the times of two runs, in seconds, as a mean over the stages.
struct DiffPart {
  std::string name;
  double a_s = 0;
  double b_s = 0;
};

/// Those that differ most first.
[[nodiscard]] std::vector<DiffPart> parts_of(const trace::RunDiff& diff, const Pipeline& pipeline);

[[nodiscard]] nlohmann::json diff_json(const trace::RunDiff& diff, const std::vector<DiffPart>& parts,
                                       const Pipeline& pipeline);

}  // namespace sluice::tools
