#pragma once

namespace CLI {
class App;
}

/// The subcommands of `sluice trace`, one file each.
namespace sluice::tools {

void add_trace_summary(CLI::App& trace);
void add_trace_diff(CLI::App& trace);
void add_trace_export(CLI::App& trace);
void add_trace_whatif(CLI::App& trace);
void add_trace_replay(CLI::App& trace);

}  // namespace sluice::tools
