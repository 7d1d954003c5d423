#include "paper/paper_row.hpp"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "option/input_file.hpp"
#include "option/toml_reader.hpp"
#include "sluice/error.hpp"

namespace sluice::tools {
namespace {

constexpr std::string_view kQuantityNames[] = {"seconds",  "compute",   "blocking", "agreement",
                                               "slowdown", "deviation", "speedup"};
constexpr double kLargest = 1e9;

}  // namespace

PaperRow read_paper_row(const std::string& path) {
  const std::string text = read_file("scenarios", path);
  PaperRow row{std::filesystem::path(path).stem().string(), {}, {}, parse_scenario(text, path), {}, {}};
  const toml::table table = parse_toml(text, path);
  TomlReader file(table, "");
  auto published = file.table("published");
  if (!published) file.missing("published");
  const auto number = published->text("table");
  if (!number) published->missing("table");
  row.table = *number;
  row.reason = published->text("reason").value_or("");
  for (const std::string_view quantity : kQuantityNames) {
    auto figures = published->table(quantity);
    if (!figures) continue;
    for (const std::string& method : row.scenario.methods) {
      if (const auto value = figures->number(method, 0, kLargest))
        row.published[std::string(quantity)][method] = *value;
    }
    figures->finish();
  }
  if (auto fit = file.table("fit")) {
    for (std::string& column : fit->texts("columns", row.scenario.methods.size()))
      row.fitted.insert(std::move(column));
  }
  return row;
}

std::vector<PaperRow> read_paper_rows(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".toml") paths.push_back(entry.path().string());
  }
  if (error || paths.empty()) throw ConfigError("scenarios", "no scenarios in " + folder);
  std::sort(paths.begin(), paths.end());
  std::vector<PaperRow> rows;
  rows.reserve(paths.size());
  for (const std::string& path : paths) rows.push_back(read_paper_row(path));
  return rows;
}

}  // namespace sluice::tools
