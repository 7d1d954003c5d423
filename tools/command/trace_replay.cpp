#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <memory>
#include <numeric>
#include <string>

#include "command/trace_commands.hpp"
#include "option/options.hpp"
#include "option/trace_input.hpp"
#include "report/progress_bar.hpp"
#include "report/trace_report.hpp"
#include "run/replay.hpp"

namespace sluice::tools {
namespace {

struct ReplayOptions {
  std::string file;
  bool simulate = false;
  std::string json;
};

void run_replay(const ReplayOptions& options) {
  check_json_path(options.json);
  const TraceInput input = TraceInput::parse(options.file);
  const trace::Recording recording = load_recording(input.path);
  const trace::RecordedRun& run = select_run(recording, input);
  Replayed replayed;
  {
    ProgressBar bar("iteration", run.iterations.size());
    replayed = replay(run, options.simulate ? ReplayOn::Simulator : ReplayOn::Runtime,
                      [&bar](std::size_t done) { bar.show(done, {}); });
  }
  const double total =
      std::accumulate(replayed.iteration_seconds.begin(), replayed.iteration_seconds.end(), 0.0);
  fmt::print("{}: {} decisions on {} stages ran in the recorded order in the {}\n", run.method,
             replayed.decisions, run.pipeline.stages(), options.simulate ? "simulator" : "runtime");
  fmt::print("recorded {:.1f} ms, replayed {:.1f} ms\n", 1e3 * total_seconds(run), 1e3 * total);
  write_json(options.json, {{"method", run.method},
                            {"decisions", replayed.decisions},
                            {"recorded_s", total_seconds(run)},
                            {"replayed_s", total},
                            {"iteration_seconds", replayed.iteration_seconds}});
}

}  // namespace

void add_trace_replay(CLI::App& trace) {
  auto options = std::make_shared<ReplayOptions>();
  CLI::App* command = trace.add_subcommand(
      "replay", "Execute a recorded decision log again, exactly, on devices that take as long as they did");
  command->add_option("file", options->file, "Recording, FILE or FILE#METHOD")->required();
  command->add_flag("--simulate", options->simulate,
                    "In virtual time with the recorded message times, not in real time without any");
  command->add_option("--json", options->json, "Write the results as JSON");
  command->footer(
      "A log that does not fit its pipeline is refused with the first mismatch.\n"
      "Examples: sluice trace replay 'run.json#bf'\n"
      "          sluice trace replay 'run.json#bf' --simulate");
  command->callback([options, command] {
    refuse_empty_values(*command);
    run_replay(*options);
  });
}

}  // namespace sluice::tools
