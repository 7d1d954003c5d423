#include <CLI/CLI.hpp>

#include "command/commands.hpp"
#include "command/trace_commands.hpp"

namespace sluice::tools {

void add_trace(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("trace", "Read recorded runs: where time went, what would have been, replay");
  command->require_subcommand(1);
  add_trace_summary(*command);
  add_trace_diff(*command);
  add_trace_export(*command);
  add_trace_whatif(*command);
  add_trace_replay(*command);
  command->footer(
      "Recordings are written by `--record FILE` of `sluice train`, `sluice compare` and `sluice simulate`: "
      "of a real run, or of a simulated one. Of a file with several methods, FILE#METHOD names one; the "
      "first is the default.\n"
      "Example: sluice compare --emulate f=10ms,b=20ms,w=10ms --stages 8 --microbatches 32 --jitter "
      "tail:0.3,10 --methods 1f1b,bf --iterations 2 --record run.json\n"
      "         sluice trace diff 'run.json#1f1b' 'run.json#bf'");
}

}  // namespace sluice::tools
