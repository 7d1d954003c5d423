#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "command/trace_commands.hpp"
#include "option/options.hpp"
#include "option/trace_input.hpp"
#include "report/trace_difference.hpp"
#include "report/trace_report.hpp"
#include "sluice/seconds.hpp"
#include "sluice/trace/run_diff.hpp"
#include "sluice/trace/timeline.hpp"

namespace sluice::tools {
namespace {

struct DiffOptions {
  std::string a;
  std::string b;
  std::uint32_t top = 10;
  std::string json;
};

std::string name_of(const trace::TaskDifference& each) {
  return fmt::format("{}{} chunk {}, iteration {}", letter(each.task.pass), each.task.microbatch,
                     each.task.chunk, each.iteration);
}

void print(const trace::RunDiff& diff, const std::vector<DiffPart>& parts, const std::string& a,
           const std::string& b) {
  fmt::print("{} iterations: {} {:.1f} ms, {} {:.1f} ms, difference {:+.1f} ms ({:.2f}x)\n\n",
             diff.iterations.size(), a, 1e3 * seconds(diff.total_a), b, 1e3 * seconds(diff.total_b),
             1e3 * seconds(diff.total_b - diff.total_a), seconds(diff.total_a) / seconds(diff.total_b));
  const std::size_t width = std::max({a.size(), b.size(), std::size_t{12}});
  fmt::print("{:<26}  {:>{}}  {:>{}}  {:>12}\n", "where, mean over stages", a, width, b, width, "difference");
  for (const DiffPart& part : parts) {
    if (part.a_s == 0 && part.b_s == 0) continue;
    fmt::print("{:<26}  {:>{}.1f} ms  {:>{}.1f} ms  {:>+9.1f} ms\n", part.name, 1e3 * part.a_s, width - 3,
               1e3 * part.b_s, width - 3, 1e3 * (part.b_s - part.a_s));
  }
  fmt::print("\n{:<32}  {:>5}  {:>21}  {:>21}  {:>12}\n", "tasks that differ most", "stage", "waited before",
             "took", "difference");
  for (const trace::TaskDifference& each : diff.tasks) {
    fmt::print("{:<32}  {:>5}  {:>7.1f} -> {:>7.1f} ms  {:>7.1f} -> {:>7.1f} ms  {:>+9.1f} ms\n",
               name_of(each), each.stage, 1e3 * seconds(each.waited_a), 1e3 * seconds(each.waited_b),
               1e3 * seconds(each.took_a), 1e3 * seconds(each.took_b), 1e3 * seconds(each.difference()));
  }
}

/// What to call the two runs: by their methods, or where those are alike by their files too.
std::pair<std::string, std::string> names_of(const TraceInput& input_a, const trace::RecordedRun& a,
                                             const TraceInput& input_b, const trace::RecordedRun& b) {
  if (a.method != b.method) return {a.method, b.method};
  return {input_a.path + "#" + a.method, input_b.path + "#" + b.method};
}

void run_diff(const DiffOptions& options) {
  check_json_path(options.json);
  const TraceInput input_a = TraceInput::parse(options.a);
  const TraceInput input_b = TraceInput::parse(options.b);
  const trace::Recording recording_a = load_recording(input_a.path);
  const trace::Recording recording_b = load_recording(input_b.path);
  const trace::RecordedRun& a = select_run(recording_a, input_a);
  const trace::RecordedRun& b = select_run(recording_b, input_b);
  const trace::RunDiff diff = trace::diff_runs(a, b, options.top);
  const std::vector<DiffPart> parts = parts_of(diff, a.pipeline);
  const auto [name_a, name_b] = names_of(input_a, a, input_b, b);
  print(diff, parts, name_a, name_b);
  write_json(options.json, diff_json(diff, parts, a.pipeline));
}

}  // namespace

void add_trace_diff(CLI::App& trace) {
  auto options = std::make_shared<DiffOptions>();
  CLI::App* command = trace.add_subcommand(
      "diff", "Two runs of one pipeline, task by task: where the difference of their times lies");
  command->add_option("a", options->a, "Recording, FILE or FILE#METHOD")->required();
  command->add_option("b", options->b, "The one to compare it with")->required();
  command->add_option("--top", options->top, "Tasks to list")->capture_default_str();
  command->add_option("--json", options->json, "Write the results as JSON");
  command->footer(
      "The parts of each run add up to its time, so their differences add up to the difference of the "
      "times.\n"
      "Example: sluice trace diff 'run.json#1f1b' 'run.json#bf'");
  command->callback([options, command] {
    refuse_empty_values(*command);
    run_diff(*options);
  });
}

}  // namespace sluice::tools
