#pragma once

#include <cstdint>
#include <string>

#include "sluice/process/rank_grid.hpp"

namespace CLI {
class App;
}

namespace sluice::tools {

/// Ranks as processes, and what they share a stage for.
struct ProcessOptions {
  /// Processes that the command starts itself; 0 for none.
  std::uint32_t spawn = 0;
  /// Ranks of a tensor-parallel group.
  std::uint32_t tp = 1;
  /// Data-parallel replicas of the pipeline.
  std::uint32_t dp = 1;
  std::string agreement = "leader";
  /// Where the processes meet: `store`, c10d's, or `ucx`, a listener of rank 0.
  std::string rendezvous = SLUICE_HAVE_TORCH ? "store" : "ucx";
  /// Longest wait for the other processes at the start.
  double join_timeout_s = 60;
  /// Where rank 0 writes what every rank waited for when a run fails; empty for nowhere.
  std::string stall_report;

  /// Declares the options on a subcommand.
  void declare(CLI::App& command);

  /// Processes of the run, as the environment or `spawn` says; 0 for threads.
  /// @throws ConfigError naming the variable or option
  [[nodiscard]] std::uint32_t world() const;

  /// The ranks of all processes; one rank where the stages are threads.
  /// @param stages changed to what the processes make up, unless they were asked for
  /// @param world processes that the environment or `spawn` speaks of; 0 for threads
  /// @throws ConfigError naming the option that does not fit
  [[nodiscard]] process::RankGrid grid(const CLI::App& command, std::uint32_t& stages,
                                       std::uint32_t world) const;
};

}  // namespace sluice::tools
