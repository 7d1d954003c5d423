#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <memory>
#include <string>

#include "command/trace_commands.hpp"
#include "option/options.hpp"
#include "option/trace_input.hpp"
#include "report/trace_report.hpp"
#include "report/trace_summary.hpp"
#include "sluice/trace/run_summary.hpp"

namespace sluice::tools {
namespace {

struct SummaryOptions {
  std::string file;
  std::string json;
};

void print_stages(const TraceSummary& summary) {
  fmt::print("{:>5}  {:>8}  {:>9}  {:>6}  {:>6}  {:>10}  {:>6}  {:>6}  {:>9}   waits most for\n", "stage",
             "compute", "messages", "limit", "order", "agreement", "start", "idle", "reordered");
  for (std::size_t i = 0; i < summary.stages.size(); ++i) {
    const trace::StageTime& stage = summary.stages[i];
    const auto share = [&stage](Duration part) {
      return stage.total() > Duration{0}
                 ? 100 * static_cast<double>(part.count()) / static_cast<double>(stage.total().count())
                 : 0.0;
    };
    fmt::print(
        "{:>5}  {:>7.1f}%  {:>8.1f}%  {:>5.1f}%  {:>5.1f}%  {:>9.1f}%  {:>5.1f}%  {:>5.1f}%  {:>9}   {}\n", i,
        share(stage.compute), share(stage.waiting_for_messages()), share(stage.limit), share(stage.order),
        share(stage.agreement), share(stage.start), share(stage.idle), summary.reordered[i],
        longest_wait(stage, summary.run.pipeline));
  }
}

void print_row(const char* name, const trace::Distribution& distribution) {
  fmt::print("  {:<34}  {:>7}  {:>10.1f}  {:>10.1f}  {:>10.1f}  {:>10.1f}\n", name, distribution.count,
             1e6 * distribution.mean_s, 1e6 * distribution.p50_s, 1e6 * distribution.p95_s,
             1e6 * distribution.max_s);
}

void print(const TraceSummary& summary) {
  fmt::print("{}: {} iterations, {:.1f} ms\n\n", summary.run.method, summary.run.iterations.size(),
             1e3 * total_seconds(summary.run));
  if (summary.run.lost > 0) fmt::print("{} events were lost\n\n", summary.run.lost);
  print_stages(summary);
  fmt::print("\n{:<36}  {:>7}  {:>10}  {:>10}  {:>10}  {:>10}\n", "microseconds", "count", "mean", "median",
             "p95", "max");
  print_row("start, bound by the stage", summary.overhead.bound_by_stage);
  print_row("start, bound by a message", summary.overhead.bound_by_message);
  print_row("noticing that a task has ended", summary.noticing);
  for (const trace::EdgeSummary& each : summary.edges)
    print_row(trace::edge_name(summary.run.pipeline, each.edge, each.direction).c_str(), each.time);
}

void run_summary(const SummaryOptions& options) {
  check_json_path(options.json);
  const TraceInput input = TraceInput::parse(options.file);
  const trace::Recording recording = load_recording(input.path);
  const trace::RecordedRun& run = select_run(recording, input);
  const TraceSummary summary(recording, run);
  print(summary);
  write_json(options.json, summary.to_json());
}

}  // namespace

void add_trace_summary(CLI::App& trace) {
  auto options = std::make_shared<SummaryOptions>();
  CLI::App* command = trace.add_subcommand(
      "summary", "Where the time of each stage went, what starting a task cost, how long messages took");
  command->add_option("file", options->file, "Recording, FILE or FILE#METHOD")->required();
  command->add_option("--json", options->json, "Write the results as JSON");
  command->footer(
      "limit: a forward was there, kept out by the limit, and nothing else to run. order: another task was "
      "ready, but not next in the order. start: the next task was ready. On emulated devices a message "
      "comes when its drawn delay has passed since the end of the task that sends it; what it took longer "
      "counts to the start of the task that waited for it.\n"
      "Example: sluice trace summary 'run.json#bf' --json summary.json");
  command->callback([options, command] {
    refuse_empty_values(*command);
    run_summary(*options);
  });
}

}  // namespace sluice::tools
