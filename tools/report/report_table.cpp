#include "report/report_table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace sluice::tools {

std::string ReportTable::markdown() const {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < columns.size(); ++column) {
    std::size_t width = std::max<std::size_t>(3, columns[column].size());
    for (const auto& row : rows) width = std::max(width, row[column].size());
    widths.push_back(width);
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text = "|";
    for (std::size_t column = 0; column < cells.size(); ++column)
      text += fmt::format(" {:<{}} |", cells[column], widths[column]);
    return text + "\n";
  };
  std::string text = fmt::format("{}\n\n{}|", title, line(columns));
  for (const std::size_t width : widths) text += fmt::format(" {:-<{}} |", "", width);
  text += "\n";
  for (const auto& row : rows) text += line(row);
  if (!notes.empty()) text += "\n";
  for (const std::string& note : notes) text += note + "\n";
  return text;
}

}  // namespace sluice::tools
