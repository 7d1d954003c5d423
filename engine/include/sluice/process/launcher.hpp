#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sluice/clock.hpp"

namespace sluice::process {

struct LaunchOptions {
  std::uint32_t ranks = 1;
  /// Program, looked up in PATH, and its arguments.
  std::vector<std::string> command;
  /// What the ranks get as MASTER_ADDR and MASTER_PORT; a free port if 0.
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;
  /// Further variables, which replace those of this process.
  std::vector<std::pair<std::string, std::string>> environment;
  /// After the first rank that failed, or a signal, the others may take so long to end by themselves.
  Duration grace = std::chrono::seconds(5);
  /// After being asked to end (SIGTERM), before they are killed.
  Duration last_grace = std::chrono::seconds(2);
};

/// How one rank ended.
struct RankEnd {
  /// Valid if no signal ended it.
  int code = 0;
  int signal = 0;
  /// The launcher ended it, because another one had failed.
  bool told_to = false;

  [[nodiscard]] bool well() const noexcept { return code == 0 && signal == 0; }
};

struct LaunchResult {
  /// That of the rank that failed first, 128 + N if signal N ended it, or ended the launch; 0 if all ended
  /// well.
  int code = 0;
  std::vector<RankEnd> ranks;
  /// Which ranks did not end well, the first to fail first; empty if all did:
  /// `rank 2 was killed by signal 9 (Killed), rank 0 exited with code 1`.
  std::string text;
};

/// Runs the command once a rank, with RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and
/// MASTER_PORT set, and waits for all of them. They share this process's output.
///
/// No rank outlives the call, nor the thread that makes it, however that ends. While it runs, SIGINT, SIGTERM
/// and SIGCHLD are the launcher's: the first two are passed on to the ranks. To be called while the process
/// has no other threads that take signals.
/// @throws ConfigError naming `ranks` or `command`; Error if the command cannot be started
[[nodiscard]] LaunchResult launch(const LaunchOptions& options);

/// A TCP port that nobody listens on at the moment, and that the system does not give to somebody else by
/// itself, as long as its settings leave such ports.
/// @throws Error if there is none
[[nodiscard]] std::uint16_t free_port();

}  // namespace sluice::process
