#pragma once

#include <vector>

#include "report_table.hpp"
#include "reproduce_paper.hpp"

namespace sluice::tools {

/// What the published experiments leave open, answered by simulation: what overhead costs, what a bad hint
/// costs, what late readiness costs, and what accumulating in order costs.
[[nodiscard]] std::vector<ReportTable> reproduce_questions(const ReproduceSettings& settings);

}  // namespace sluice::tools
