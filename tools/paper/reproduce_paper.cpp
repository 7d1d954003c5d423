#include "paper/reproduce_paper.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string_view>

#include "run/simulation.hpp"
#include "sluice/error.hpp"

namespace sluice::tools {
namespace {

using Figures = std::map<std::string, double>;

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double deviation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double middle = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - middle) * (value - middle);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

/// What a table calls its figures, and how it writes them.
struct Quantity {
  std::string_view name;
  std::string_view title;
  int decimals;
  /// Errors are differences in percentage points, not shares.
  bool percent;
};

constexpr Quantity kQuantities[] = {
    {"seconds", "iteration, s", 2, false}, {"compute", "compute, s", 3, false},
    {"blocking", "blocked, s", 3, false},  {"agreement", "agreement, s", 3, false},
    {"slowdown", "slowdown, %", 2, true},  {"deviation", "standard deviation, s", 3, false},
    {"speedup", "speed-up", 2, false},
};

/// All quantities of one simulated row, by name and method.
class SimulatedRow {
 public:
  explicit SimulatedRow(const std::vector<SimulatedMethod>& methods) {
    for (const SimulatedMethod& method : methods) {
      const std::string& name = method.name;
      means_[name] = mean(method.makespans);
      figures_["seconds"][name] = method.median_makespan();
      figures_["compute"][name] = method.at_median(method.compute);
      figures_["blocking"][name] = method.at_median(method.blocked);
      figures_["agreement"][name] = method.at_median(method.agreement);
      figures_["deviation"][name] = deviation(method.makespans);
      figures_["speedup"][name] = methods.front().median_makespan() / method.median_makespan();
      peaks_[name] = *std::max_element(method.peak_in_flight.begin(), method.peak_in_flight.end());
    }
  }

  /// Table 6 compares the levels of one method, table 7 the methods of one row.
  void slowdowns_over(const SimulatedRow& first, const std::string& first_method, bool by_method) {
    for (const auto& [name, value] : means_) {
      const double base = first.means_.at(by_method ? name : first_method);
      figures_["slowdown"][name] = 100 * (value / base - 1);
    }
  }

  [[nodiscard]] double figure(std::string_view quantity, const std::string& method) const {
    return figures_.at(std::string(quantity)).at(method);
  }
  [[nodiscard]] std::uint32_t peak(const std::string& method) const { return peaks_.at(method); }

 private:
  std::map<std::string, Figures> figures_;
  Figures means_;
  std::map<std::string, std::uint32_t> peaks_;
};

SimulatedRow simulate_row(const PaperRow& row, const ReproduceSettings& settings) {
  const sim::Scenario& scenario = row.scenario.scenario;
  std::vector<Method> methods;
  for (const std::string& name : row.scenario.methods)
    methods.emplace_back(name, scenario.pipeline, method_settings(scenario));
  if (methods.empty()) throw ConfigError("methods", row.file + " names none");
  SimulationSettings simulation;
  simulation.seeds = settings.seeds.value_or(row.scenario.seeds.value_or(1));
  simulation.threads = settings.threads;
  return SimulatedRow(simulate_methods(scenario, methods, simulation));
}

/// Errors of a table, apart for what was fitted.
struct Errors {
  std::vector<double> fitted, predicted;

  void add(bool fit, double error) { (fit ? fitted : predicted).push_back(std::abs(error)); }
};

class Comparison {
 public:
  Comparison(const std::vector<PaperRow>& rows, const ReproduceSettings& settings) : rows_(rows) {
    for (const PaperRow& row : rows) {
      settings.progress(simulated_.size(), rows.size(), row.file);
      simulated_.push_back(simulate_row(row, settings));
    }
    for (SimulatedRow& row : simulated_)
      row.slowdowns_over(rows.front().table == "6" ? simulated_.front() : row,
                         rows.front().scenario.methods.front(), rows.front().table == "6");
    for (const PaperRow& row : rows) {
      for (const std::string& method : row.scenario.methods) {
        if (std::find(methods_.begin(), methods_.end(), method) == methods_.end()) methods_.push_back(method);
      }
    }
  }

  ReportTable table() {
    ReportTable table;
    table.id = rows_.front().table;
    table.title = fmt::format(
        "Table {}: published / simulated, and the error (* the model was fitted to this figure)", table.id);
    table.columns = {"row", "what"};
    table.columns.insert(table.columns.end(), methods_.begin(), methods_.end());
    table.json = {{"table", table.id}, {"rows", nlohmann::json::array()}};
    for (std::size_t i = 0; i < rows_.size(); ++i) add_row(table, i);
    add_errors(table);
    for (const PaperRow& row : rows_) {
      if (!row.reason.empty())
        table.notes.push_back(fmt::format("{}: {}", row.scenario.scenario.name, row.reason));
    }
    return table;
  }

 private:
  void add_row(ReportTable& table, std::size_t number) {
    const PaperRow& row = rows_[number];
    nlohmann::json json = {{"file", row.file}, {"name", row.scenario.scenario.name}, {"methods", {}}};
    if (!row.reason.empty()) json["reason"] = row.reason;
    for (const std::string& method : row.scenario.methods) {
      json["methods"][method] = {{"simulated_s", simulated_[number].figure("seconds", method)},
                                 {"peak_in_flight", simulated_[number].peak(method)},
                                 {"fitted", row.fitted.contains(method)}};
    }
    for (const Quantity& quantity : kQuantities) {
      const auto published = row.published.find(std::string(quantity.name));
      if (published != row.published.end()) {
        table.rows.push_back(compared(row, number, quantity, published->second, json));
      } else if (row.published.empty() && quantity.name == "seconds") {
        table.rows.push_back(simulated_only(row, number));
      }
    }
    table.json["rows"].push_back(std::move(json));
  }

  std::vector<std::string> compared(const PaperRow& row, std::size_t number, const Quantity& quantity,
                                    const Figures& published, nlohmann::json& json) {
    std::vector<std::string> cells = {row.scenario.scenario.name, std::string(quantity.title)};
    for (const std::string& method : methods_) {
      const auto at = published.find(method);
      if (at == published.end()) {
        cells.emplace_back("");
        continue;
      }
      const double simulated = simulated_[number].figure(quantity.name, method);
      const bool fitted = quantity.name == "seconds" && row.fitted.contains(method);
      std::string cell =
          fmt::format("{:.{}f} / {:.{}f}", at->second, quantity.decimals, simulated, quantity.decimals);
      nlohmann::json entry = {{"published", at->second}, {"simulated", simulated}, {"fitted", fitted}};
      if (quantity.percent) {
        entry["difference"] = simulated - at->second;
        errors_[quantity.name].add(fitted, simulated - at->second);
      } else if (at->second > 0) {
        const double error = simulated / at->second - 1;
        cell += fmt::format(" ({:+.0f} %{})", 100 * error, fitted ? "*" : "");
        entry["error"] = error;
        errors_[quantity.name].add(fitted, error);
      }
      cells.push_back(std::move(cell));
      json["methods"][method][std::string(quantity.name)] = std::move(entry);
    }
    return cells;
  }

  std::vector<std::string> simulated_only(const PaperRow& row, std::size_t number) const {
    std::vector<std::string> cells = {row.scenario.scenario.name, "iteration, s"};
    for (const std::string& method : methods_)
      cells.push_back(fmt::format("{:.2f}", simulated_[number].figure("seconds", method)));
    return cells;
  }

  void add_errors(ReportTable& table) const {
    for (const Quantity& quantity : kQuantities) {
      const auto at = errors_.find(quantity.name);
      if (at == errors_.end()) continue;
      std::string line = fmt::format("Mean absolute error of {}:", quantity.title);
      const auto add = [&](const char* what, const std::vector<double>& errors) {
        if (errors.empty()) return;
        const double average = mean(errors);
        table.json["mean_absolute_error"][std::string(quantity.name)][what] = average;
        line += quantity.percent ? fmt::format(" {} {:.1f} points", what, average)
                                 : fmt::format(" {} {:.1f} %", what, 100 * average);
        line += fmt::format(" ({} figures)", errors.size());
      };
      add("fitted", at->second.fitted);
      add("predicted", at->second.predicted);
      table.notes.push_back(std::move(line));
    }
  }

  const std::vector<PaperRow>& rows_;
  std::vector<SimulatedRow> simulated_;
  std::vector<std::string> methods_;
  std::map<std::string_view, Errors> errors_;
};

}  // namespace

ReportTable reproduce_rows(const std::vector<PaperRow>& rows, const ReproduceSettings& settings) {
  return Comparison(rows, settings).table();
}

}  // namespace sluice::tools
