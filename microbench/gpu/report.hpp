#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "gpu/row.hpp"

namespace sluice::microbench {

/// The device and what it was reached with.
struct DeviceNote {
  std::string name;
  std::string compute_capability;
  int driver_version = 0;
  int runtime_version = 0;
  std::uint64_t memory_bytes = 0;
  /// A real one, so that its figures count.
  bool real = false;
};

void to_json(nlohmann::json& json, const DeviceNote& device);
void from_json(const nlohmann::json& json, DeviceNote& device);

/// What a test program came to, as the script that ran it notes it.
struct Check {
  std::string name;
  /// `passed`, `failed` or `not run`.
  std::string outcome;
  std::string detail;
};

/// One check a line: name, outcome and detail, with tabs between them.
/// @throws ConfigError naming `checks` and the line
[[nodiscard]] std::vector<Check> read_checks(const std::string& file);

/// All that was seen on a device.
struct Report {
  DeviceNote device;
  bool quick = false;
  std::vector<Check> checks;
  std::vector<Row> rows;

  /// They are a real device's, and of enough measurements; others are not judged.
  [[nodiscard]] bool figures_count() const;
  /// No check and no subject has failed and no goal was missed.
  [[nodiscard]] bool good() const;
};

[[nodiscard]] nlohmann::json to_json(const Report& report);
/// For people: tables of checks and rows, and what was not run.
[[nodiscard]] std::string to_text(const Report& report);
/// The same for a page of the documentation.
[[nodiscard]] std::string to_markdown(const Report& report);

}  // namespace sluice::microbench
