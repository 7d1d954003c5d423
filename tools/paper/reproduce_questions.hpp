#pragma once

#include <vector>

#include "paper/reproduce_paper.hpp"
#include "report/report_table.hpp"

namespace sluice::tools {

/// What the published experiments leave open, answered by simulation: what overhead costs, what a bad hint
/// costs, what late readiness costs, and what accumulating in order costs.
[[nodiscard]] std::vector<ReportTable> reproduce_questions(const ReproduceSettings& settings);

}  // namespace sluice::tools
