#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace sluice::tools {

/// What profilers are told of a run.
struct ProfileOptions {
  /// Iterations, both included.
  struct Iterations {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
  };

  /// Annotate tasks, waits, arrivals and decisions.
  bool nvtx = false;
  /// Iterations to capture, as `10-12` or `10`; empty for no range.
  std::string profile_iterations;

  /// Declares the options on a subcommand.
  void declare(CLI::App& command);
  /// @throws ConfigError naming the option at fault, or that this build has no NVTX
  void check() const;
  /// @param last the last iteration of the run
  /// @throws ConfigError naming `profile-iterations` if it lies beyond the run
  void check_within(std::uint64_t last) const;

  [[nodiscard]] bool used() const noexcept { return nvtx || !profile_iterations.empty(); }
  /// The first option that was given; empty for none.
  [[nodiscard]] const char* given() const noexcept;
  /// After `check`.
  [[nodiscard]] std::optional<Iterations> iterations() const;
};

/// @throws ConfigError naming `profile-iterations`
[[nodiscard]] ProfileOptions::Iterations parse_iterations(const std::string& text);

}  // namespace sluice::tools
