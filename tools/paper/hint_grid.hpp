#pragma once

#include <string>

#include "paper/reproduce_paper.hpp"
#include "report/report_table.hpp"

namespace sluice::tools {

/// Holds hints against each other on every cell of a grid (scenarios/hint_grid.toml): the last one against
/// the best of the others.
/// @param path of the grid's description
/// @throws ConfigError naming the field, with its line
[[nodiscard]] ReportTable reproduce_hint_grid(const std::string& path, const ReproduceSettings& settings);

}  // namespace sluice::tools
