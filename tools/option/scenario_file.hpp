#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/sim/scenario.hpp"

namespace sluice::tools {

/// Seeds that one command may simulate.
inline constexpr std::uint64_t kMostSeeds = 1'000'000;

/// The recording whose task times a scenario takes over.
struct TraceTimes {
  /// `FILE` or `FILE#METHOD`, relative to the scenario's folder.
  std::string input;
  /// Where the scenario names it.
  std::size_t line = 0;
};

/// A scenario as a file describes it (docs/simulate.md).
struct ScenarioFile {
  sim::Scenario scenario;
  /// What to run, if the file says so; the command line wins.
  std::vector<std::string> methods;
  std::optional<std::uint64_t> seeds;
  std::optional<TraceTimes> trace;
};

/// Opens no file: with `trace` set, the tasks take no time yet.
/// @param source name of the text in messages
/// @throws ConfigError naming the field, with its line
[[nodiscard]] ScenarioFile parse_scenario(std::string_view text, const std::string& source);

/// Reads the recording too, if the scenario names one.
/// @throws ConfigError naming `scenario` if the file cannot be read, `times.trace` if the recording cannot be
///         read or is of another pipeline, else as `parse_scenario`
[[nodiscard]] ScenarioFile read_scenario(const std::string& path);

/// Reads `exponential:200us` or `uniform:200us`, the mean.
/// @throws ConfigError naming `field`
[[nodiscard]] sim::Skew parse_skew(const std::string& field, std::string_view text);

/// Average over a stage's chunks of half a forward and backward, for jitter that goes by nominal times.
[[nodiscard]] Duration nominal_compute(const std::vector<host::DurationModel>& times);

}  // namespace sluice::tools
