#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/sim/scenario.hpp"

namespace sluice::tools {

/// A scenario as a file describes it (docs/simulate.md).
struct ScenarioFile {
  sim::Scenario scenario;
  /// What to run, if the file says so; the command line wins.
  std::vector<std::string> methods;
  std::optional<std::uint64_t> seeds;
};

/// @param source name of the text in messages
/// @throws ConfigError naming the field, with its line
[[nodiscard]] ScenarioFile parse_scenario(std::string_view text, const std::string& source);

/// @throws ConfigError naming `scenario` if the file cannot be read, else as `parse_scenario`
[[nodiscard]] ScenarioFile read_scenario(const std::string& path);

/// Reads `exponential:200us` or `uniform:200us`, the mean.
/// @throws ConfigError naming `field`
[[nodiscard]] sim::Skew parse_skew(const std::string& field, std::string_view text);

/// Average over a stage's chunks of half a forward and backward, for jitter that goes by nominal times.
[[nodiscard]] Duration nominal_compute(const std::vector<host::DurationModel>& times);

}  // namespace sluice::tools
