#include "gpu/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sluice/error.hpp"

namespace sluice::microbench {
namespace {

constexpr const char* kNoDevice =
    "THE DEVICE IS THE FAKE ONE OF THE TESTS: NO FIGURE BELOW SAYS ANYTHING ABOUT A GPU.";

/// Three significant digits or all whole ones.
std::string number(double value) {
  const double size = std::abs(value);
  return fmt::format("{:.{}f}", value, size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

std::string optional_number(const std::optional<double>& value) { return value ? number(*value) : ""; }

std::string goal_of(const Row& row) {
  if (!row.goal) return "";
  return fmt::format("{}{}", row.goal->of_magnitude ? "+-" : "<= ", row.goal->most);
}

/// Cells of a row: what, value, unit, p99, reference, goal, verdict.
constexpr std::size_t kColumns = 7;
using Cells = std::array<std::string, kColumns>;
constexpr std::array<const char*, kColumns> kHeads{"", "value", "unit", "p99", "against", "goal", "verdict"};

Cells cells_of(const Row& row, bool counts) {
  const Verdict verdict = row.verdict(counts);
  std::string outcome = name(verdict);
  if (!row.reason.empty()) outcome += ": " + row.reason;
  return {row.name,
          optional_number(row.value),
          row.unit,
          row.samples ? number(row.samples->p99) : "",
          row.reference ? fmt::format("{} ({})", number(*row.reference), row.reference_name) : "",
          goal_of(row),
          outcome};
}

std::string device_line(const Report& report) {
  const auto version = [](int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); };
  return fmt::format("{}, compute capability {}, {} MiB; driver for CUDA {}, runtime {}{}",
                     report.device.name, report.device.compute_capability, report.device.memory_bytes >> 20U,
                     version(report.device.driver_version), version(report.device.runtime_version),
                     report.quick ? "; quick: too few measurements for figures" : "");
}

/// Calls back at each first row of a subject, and for each row.
template <typename Begin, typename Line>
void for_each_row(const Report& report, const Begin& begin, const Line& line) {
  std::string subject;
  for (const Row& row : report.rows) {
    if (row.subject != subject) begin(row.subject);
    subject = row.subject;
    line(cells_of(row, report.figures_count()));
  }
}

std::vector<std::string> not_run_lines(const Report& report) {
  std::vector<std::string> lines;
  for (const Check& check : report.checks) {
    if (check.outcome == "not run") lines.push_back(fmt::format("{}: {}", check.name, check.detail));
  }
  for (const Row& row : report.rows) {
    if (row.verdict(report.figures_count()) == Verdict::NotRun)
      lines.push_back(fmt::format("{}, {}: {}", row.subject, row.name, row.reason));
  }
  return lines;
}

bool bad(Verdict verdict) { return verdict == Verdict::Failed || verdict == Verdict::NotMet; }

}  // namespace

void to_json(nlohmann::json& json, const DeviceNote& device) {
  json = {{"name", device.name},
          {"compute_capability", device.compute_capability},
          {"driver_version", device.driver_version},
          {"runtime_version", device.runtime_version},
          {"memory_bytes", device.memory_bytes},
          {"real", device.real}};
}

void from_json(const nlohmann::json& json, DeviceNote& device) {
  json.at("name").get_to(device.name);
  json.at("compute_capability").get_to(device.compute_capability);
  json.at("driver_version").get_to(device.driver_version);
  json.at("runtime_version").get_to(device.runtime_version);
  json.at("memory_bytes").get_to(device.memory_bytes);
  json.at("real").get_to(device.real);
}

std::vector<Check> read_checks(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) throw ConfigError("checks", "cannot read " + file);
  std::vector<Check> checks;
  for (std::string line; std::getline(stream, line);) {
    const std::size_t first = line.find('\t');
    const std::size_t second = first == std::string::npos ? first : line.find('\t', first + 1);
    Check check;
    if (second != std::string::npos)
      check = {line.substr(0, first), line.substr(first + 1, second - first - 1), line.substr(second + 1)};
    const bool known = check.outcome == "passed" || check.outcome == "failed" || check.outcome == "not run";
    if (check.name.empty() || !known) {
      throw ConfigError("checks", fmt::format("line {} of {} is not a name, an outcome (passed, failed, not "
                                              "run) and a detail with tabs between them",
                                              checks.size() + 1, file));
    }
    checks.push_back(std::move(check));
  }
  return checks;
}

bool Report::figures_count() const { return device.real && !quick; }

bool Report::good() const {
  return std::none_of(checks.begin(), checks.end(),
                      [](const Check& check) { return check.outcome == "failed"; }) &&
         std::none_of(rows.begin(), rows.end(),
                      [&](const Row& row) { return bad(row.verdict(figures_count())); });
}

nlohmann::json to_json(const Report& report) {
  nlohmann::json json{{"device", report.device},
                      {"figures_count", report.figures_count()},
                      {"quick", report.quick},
                      {"good", report.good()},
                      {"checks", nlohmann::json::array()},
                      {"rows", nlohmann::json::array()}};
  for (const Check& check : report.checks)
    json["checks"].push_back({{"name", check.name}, {"outcome", check.outcome}, {"detail", check.detail}});
  for (const Row& row : report.rows) {
    nlohmann::json line = row;
    line["verdict"] = name(row.verdict(report.figures_count()));
    json["rows"].push_back(std::move(line));
  }
  return json;
}

std::string to_text(const Report& report) {
  std::string text = device_line(report) + "\n";
  if (!report.device.real) text += fmt::format("\n*** {} ***\n", kNoDevice);
  if (!report.checks.empty()) text += "\nChecks\n";
  for (const Check& check : report.checks)
    text += fmt::format("  {:<28} {:<8} {}\n", check.name, check.outcome, check.detail);
  const auto line = [&](const auto& cells) {
    text += fmt::format("  {:<58} {:>9} {:<5} {:>9} {:>42} {:>6}  {}\n", cells[0], cells[1], cells[2],
                        cells[3], cells[4], cells[5], cells[6]);
  };
  for_each_row(
      report,
      [&](const std::string& subject) {
        text += "\n" + subject + "\n";
        line(kHeads);
      },
      line);
  const std::vector<std::string> left = not_run_lines(report);
  if (!left.empty()) text += "\nNot run, which is not a pass\n";
  for (const std::string& each : left) text += "  " + each + "\n";
  if (!report.device.real) text += fmt::format("\n*** {} ***\n", kNoDevice);
  return text;
}

std::string to_markdown(const Report& report) {
  std::string text = fmt::format("Device: {}\n", device_line(report));
  if (!report.device.real) text += fmt::format("\n**{}**\n", kNoDevice);
  if (!report.checks.empty()) text += "\n| check | outcome | |\n| --- | --- | --- |\n";
  for (const Check& check : report.checks)
    text += fmt::format("| {} | {} | {} |\n", check.name, check.outcome, check.detail);
  const auto line = [&](const auto& cells) {
    text += "|";
    for (const auto& cell : cells) text += fmt::format(" {} |", cell);
    text += "\n";
  };
  for_each_row(
      report,
      [&](const std::string& subject) {
        text += "\n### " + subject + "\n\n";
        line(kHeads);
        text += "| --- | ---: | --- | ---: | --- | --- | --- |\n";
      },
      line);
  return text;
}

}  // namespace sluice::microbench
