#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace sluice::microbench {

/// What is kept of many measurements of one thing.
struct Spread {
  std::uint64_t count = 0;
  double least = 0;
  double median = 0;
  double p99 = 0;
  double most = 0;
};

/// @param samples at least one
[[nodiscard]] Spread spread_of(std::vector<double> samples);

/// What a value has to keep to.
struct Goal {
  double most = 0;
  /// The value's sign says nothing.
  bool of_magnitude = false;
};

/// How a row came out. Figures that do not count are not judged.
enum class Verdict : std::uint8_t { Met, NotMet, NoGoal, NotJudged, NotRun, Failed };

[[nodiscard]] const char* name(Verdict verdict);

/// One line of the report.
struct Row {
  std::string subject;
  std::string name;
  std::string unit;
  /// Nothing where it was not measured.
  std::optional<double> value;
  std::optional<Spread> samples;
  /// What the value is compared with, and what that is.
  std::optional<double> reference;
  std::string reference_name;
  std::optional<Goal> goal;
  /// Why it was not run, or how it failed.
  std::string reason;
  bool failed = false;

  /// @param counts the figures are a real device's, and of enough measurements
  [[nodiscard]] Verdict verdict(bool counts) const;
};

/// A row whose value is the samples' median.
[[nodiscard]] Row median_row(std::string name, std::string unit, std::vector<double> samples,
                             std::optional<Goal> goal = {});
[[nodiscard]] Row not_run(std::string name, std::string unit, std::string reason);

/// For the way between processes: everything but the verdict.
void to_json(nlohmann::json& json, const Row& row);
void from_json(const nlohmann::json& json, Row& row);

}  // namespace sluice::microbench
