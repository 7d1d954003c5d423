#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "option/scenario_file.hpp"

namespace sluice::tools {

/// A row of a published table with the scenario that models it: one file of scenarios/paper.
struct PaperRow {
  /// Of the file, without its folder and extension.
  std::string file;
  std::string table;
  /// What the model cannot reach about this row, and why.
  std::string reason;
  ScenarioFile scenario;
  /// By quantity (`seconds`, `compute`, `blocking`, `agreement`, `slowdown`, `deviation`, `speedup`) and
  /// method.
  std::map<std::string, std::map<std::string, double>> published;
  /// Methods whose seconds the model was fitted to.
  std::set<std::string> fitted;
};

/// @throws ConfigError naming the field, with its line
[[nodiscard]] PaperRow read_paper_row(const std::string& path);

/// All rows of a folder, by name.
/// @throws ConfigError naming `scenarios` if there are none, else as `read_paper_row`
[[nodiscard]] std::vector<PaperRow> read_paper_rows(const std::string& folder);

}  // namespace sluice::tools
