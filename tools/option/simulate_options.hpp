#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "method/method.hpp"
#include "option/options.hpp"
#include "sluice/sim/scenario.hpp"

namespace sluice::tools {

/// What `sluice simulate` was asked for.
struct SimulateOptions {
  std::string file;
  PipelineOptions run;
  OutputOptions output;
  std::vector<std::string> methods{"1f1b", "bf", "bfw", "zb-h1"};
  std::uint64_t seeds = 8;
  std::string config;
  bool equal_memory = false;
  std::string latency;
  std::uint32_t group = 1;
  std::string group_rule = "common";
  std::string agreement;
  std::string agreement_latency;
  std::string skew;
  std::uint32_t replicas = 1;
  std::string overhead;
  unsigned threads = 0;

  void declare(CLI::App& command);
};

/// The scenario that a run on emulated devices plays out: same model, same draws.
/// @param run finished, its limits set
/// @throws ConfigError naming `emulate` if it has none
[[nodiscard]] sim::Scenario emulated_scenario(const PipelineOptions& run);

/// A checked request: the scenario and the methods to run on it.
struct Simulation {
  sim::Scenario scenario;
  std::vector<Method> methods;
  std::uint64_t seeds = 1;
  /// Every setting, as the results record it.
  nlohmann::json config;
};

/// Puts file and command line together; the command line wins.
/// @throws ConfigError naming the field
[[nodiscard]] Simulation prepare(SimulateOptions& options, const CLI::App& command);

}  // namespace sluice::tools
