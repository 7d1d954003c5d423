#pragma once

namespace CLI {
class App;
}

namespace sluice::tools {

/// Adds the subcommand `train` to the command line.
void add_train(CLI::App& app);
/// Adds the subcommand `compare` to the command line.
void add_compare(CLI::App& app);
/// Adds the subcommand `simulate` to the command line.
void add_simulate(CLI::App& app);
/// Adds the subcommand `trace` to the command line.
void add_trace(CLI::App& app);
/// Adds the subcommand `schedule` to the command line.
void add_schedule(CLI::App& app);
/// Adds the subcommand `capture` to the command line. What this build lacks for a part of it, it says.
void add_capture(CLI::App& app);
/// Adds the subcommand `reproduce` to the command line.
void add_reproduce(CLI::App& app);

}  // namespace sluice::tools
