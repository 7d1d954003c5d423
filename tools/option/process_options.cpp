#include "option/process_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>

#include "sluice/error.hpp"
#include "sluice/process/process_place.hpp"

namespace sluice::tools {
namespace {

constexpr double kLongestJoin = 1e5;
constexpr std::array<const char*, 3> kAgreements = {"leader", "first-pick", "bitmap"};

}  // namespace

void ProcessOptions::declare(CLI::App& command) {
  constexpr const char* group = "Processes";
  command
      .add_option("--spawn", spawn,
                  "Start so many processes, one a rank, on this machine (torchrun starts them anywhere)")
      ->group(group);
  command.add_option("--tp", tp, "Tensor parallelism: ranks that run each stage together")
      ->capture_default_str()
      ->group(group);
  command.add_option("--dp", dp, "Data parallelism: replicas of the pipeline")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--agreement", agreement,
                  "How the ranks of a stage settle on the next task: leader, bitmap or first-pick (RRFP's)")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--stall-report", stall_report,
                  "If the run fails, write what every rank was waiting for as JSON (rank 0 does)")
      ->group(group);
  command
      .add_option(
          "--rendezvous", rendezvous,
          "Where the processes meet, at MASTER_ADDR:MASTER_PORT: store (torchrun's) or ucx (a listener)")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--join-timeout", join_timeout_s, "Seconds to wait for the other processes at the start")
      ->capture_default_str()
      ->group(group);
}

std::uint32_t ProcessOptions::world() const {
  const auto place = process::environment_place();
  if (!place || place->ranks == 1) return spawn;
  if (spawn > 0 && spawn != place->ranks) {
    throw ConfigError("spawn", fmt::format("this process is already one of {} (WORLD_SIZE)", place->ranks));
  }
  return place->ranks;
}

process::RankGrid ProcessOptions::grid(const CLI::App& command, std::uint32_t& stages,
                                       std::uint32_t world) const {
  if (std::find(kAgreements.begin(), kAgreements.end(), agreement) == kAgreements.end()) {
    throw ConfigError("agreement",
                      fmt::format("'{}' is not one of {}", agreement, fmt::join(kAgreements, ", ")));
  }
  if (rendezvous != "ucx" && (rendezvous != "store" || !SLUICE_HAVE_TORCH)) {
    throw ConfigError("rendezvous", fmt::format("'{}' is not {}", rendezvous,
                                                SLUICE_HAVE_TORCH ? "one of store, ucx" : "ucx"));
  }
  if (!(join_timeout_s > 0 && join_timeout_s <= kLongestJoin))
    throw ConfigError("join-timeout", fmt::format("must be above 0 and at most {} s", kLongestJoin));
  if (tp == 0) throw ConfigError("tp", "must be at least 1");
  if (dp == 0) throw ConfigError("dp", "must be at least 1");
  if (!stall_report.empty() && world == 0)
    throw ConfigError("stall-report", "needs ranks that are processes: --spawn N, or torchrun");
  if (command.count("--spawn") > 0 && spawn == 0) throw ConfigError("spawn", "must be at least 1");
  if (world == 0) {
    const char* const field = tp > 1 ? "tp" : "dp";
    if (tp > 1 || dp > 1) throw ConfigError(field, "needs ranks that are processes: --spawn N, or torchrun");
    return {stages, 1, 1};
  }
  const std::uint64_t share = std::uint64_t{tp} * dp;
  if (command.count("--stages") == 0 && world % share == 0)
    stages = static_cast<std::uint32_t>(world / share);
  if (stages * share != world) {
    throw ConfigError(spawn > 0 ? "spawn" : "stages",
                      fmt::format("{} stages x {} replicas x {} ranks a stage need {} processes, not {}",
                                  stages, dp, tp, stages * share, world));
  }
  return {stages, dp, tp};
}

}  // namespace sluice::tools
