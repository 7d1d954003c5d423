#pragma once

namespace sluice::tools {

/// Runs the `sluice` command: what `main` does.
/// @param argc, argv as `main` gets them
/// @return 0, or 1 after a failure of the run, or 2 for what cannot be run as asked for
[[nodiscard]] int run_command_line(int argc, const char* const* argv);

}  // namespace sluice::tools
