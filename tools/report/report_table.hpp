#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace sluice::tools {

/// A table for people and the same for programs.
struct ReportTable {
  /// As `--table` names it.
  std::string id;
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
  /// What the table says, a line each.
  std::vector<std::string> notes;
  nlohmann::json json = nlohmann::json::object();

  /// In Markdown, its columns aligned.
  [[nodiscard]] std::string markdown() const;
};

}  // namespace sluice::tools
