#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "command/trace_commands.hpp"
#include "option/options.hpp"
#include "option/trace_input.hpp"
#include "report/results.hpp"
#include "sluice/error.hpp"
#include "sluice/trace/output_file.hpp"
#include "sluice/trace/recorded_export.hpp"
#include "sluice/trace/timeline.hpp"

namespace sluice::tools {
namespace {

struct ExportOptions {
  std::string file;
  std::string chrome;
  std::string csv;
  std::string timeline;
};

void check(const ExportOptions& options, const std::string& input) {
  std::set<std::string> taken{input};
  for (const auto& [field, path] : {std::pair("chrome", options.chrome), std::pair("csv", options.csv),
                                    std::pair("timeline", options.timeline)}) {
    if (path.empty()) continue;
    trace::check_writable(field, path);
    if (!taken.insert(path).second) throw ConfigError(field, path + " is also another file of the command");
  }
  if (taken.size() == 1) throw ConfigError("export", "give --chrome, --csv or --timeline");
}

std::vector<trace::MethodTimeline> timelines_of(const std::vector<trace::RecordedRun>& runs) {
  std::vector<trace::MethodTimeline> timelines;
  timelines.reserve(runs.size());
  for (const trace::RecordedRun& run : runs) timelines.push_back(trace::timeline_of(run));
  return timelines;
}

void run_export(const ExportOptions& options) {
  const TraceInput input = TraceInput::parse(options.file);
  check(options, input.path);
  trace::Recording recording = load_recording(input.path);
  std::vector<trace::RecordedRun> runs;
  if (input.method.empty()) {
    runs = std::move(recording.runs);
  } else {
    runs.push_back(select_run(recording, input));
  }
  if (!options.chrome.empty()) write_named("trace", options.chrome, trace::chrome_trace(runs));
  if (!options.csv.empty()) write_named("table", options.csv, trace::recorded_csv(runs));
  if (!options.timeline.empty())
    write_named("timeline", options.timeline, draw_timelines(options.timeline, timelines_of(runs)));
}

}  // namespace

void add_trace_export(CLI::App& trace) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* command =
      trace.add_subcommand("export", "A recording for other tools: Perfetto, a table, a timeline");
  command->add_option("file", options->file, "Recording: FILE for all its methods, or FILE#METHOD")
      ->required();
  command->add_option("--chrome", options->chrome,
                      "Write a Chrome/Perfetto trace with the messages as arrows and what is in flight");
  command->add_option("--csv", options->csv, "Write the tasks and messages as comma-separated values");
  command->add_option("--timeline", options->timeline,
                      "Write an interactive HTML page, or an SVG picture if the path ends in .svg");
  command->footer("Example: sluice trace export run.json --chrome run.trace.json --timeline run.html");
  command->callback([options, command] {
    refuse_empty_values(*command);
    run_export(*options);
  });
}

}  // namespace sluice::tools
