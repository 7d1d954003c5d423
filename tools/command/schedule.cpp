#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "command/commands.hpp"
#include "report/results.hpp"
#include "run/scheduled_run.hpp"
#include "sluice/error.hpp"
#include "sluice/schedule_csv.hpp"
#include "sluice/trace/output_file.hpp"

namespace sluice::tools {
namespace {

/// A grid wider than this is not printed.
constexpr std::size_t kGridWidth = 240;

struct ScheduleOptions {
  std::string source;
  ScheduleSizes sizes;
  std::string emulate = "f=1ms,b=2ms,w=1ms";
  bool check = false;
  std::string csv;
  OutputOptions output;

  [[nodiscard]] bool csv_to_stdout() const { return csv == "-"; }
};

double milliseconds(Duration duration) { return std::chrono::duration<double, std::milli>(duration).count(); }

void check_paths(const ScheduleOptions& options) {
  std::vector<std::string> others;
  if (std::filesystem::exists(options.source)) others.push_back(options.source);
  if (!options.csv.empty() && !options.csv_to_stdout()) {
    trace::check_writable("csv", options.csv);
    others.push_back(options.csv);
  }
  options.output.check(others);
}

/// Where a fault is in the file, if the schedule is from one.
std::string place_of(const ScheduleFault& fault, const LoadedSchedule& loaded) {
  if (loaded.columns.empty()) return {};
  const auto& columns = loaded.columns[fault.rank];
  if (fault.position == columns.size()) return fmt::format("line {}: ", fault.rank + 1);
  return fmt::format("line {}, column {}: ", fault.rank + 1, columns[fault.position]);
}

/// Prints the first fault of every rank.
void check(const LoadedSchedule& loaded) {
  const std::vector<ScheduleFault> faults = loaded.schedule.faults(loaded.pipeline);
  if (faults.empty()) return;
  for (const ScheduleFault& fault : faults) fmt::print("{}{}\n", place_of(fault, loaded), to_string(fault));
  std::fflush(stdout);
  throw ConfigError("schedule", fmt::format("{} of {} ranks cannot run it; the first: {}{}", faults.size(),
                                            loaded.schedule.stages(), place_of(faults.front(), loaded),
                                            to_string(faults.front())));
}

void print_title(const LoadedSchedule& loaded) {
  fmt::print("{}: {} stages, {} chunks, {} microbatches\n", loaded.schedule.name(), loaded.pipeline.stages(),
             loaded.pipeline.chunks(), loaded.pipeline.microbatches());
}

void print_run(const ScheduledRun& run) {
  const std::string grid = draw_grid(run, kGridWidth);
  if (grid.empty()) {
    fmt::print("\nToo wide to draw here: see --timeline.\n");
  } else {
    fmt::print("\n{}", grid);
  }
  fmt::print("\n{:>5}  {:>9}  {:>9}  {:>8}\n", "rank", "in flight", "busy", "bubble");
  for (std::size_t stage = 0; stage < run.stages.size(); ++stage) {
    const ScheduledStage& each = run.stages[stage];
    fmt::print("{:>5}  {:>9}  {:>6.1f} ms  {:>7.1f}%\n", stage, each.peak_in_flight, milliseconds(each.busy),
               100 * (1 - milliseconds(each.busy) / milliseconds(run.makespan)));
  }
  fmt::print("\nmakespan {:.3f} ms, bubble {:.1f}%\n", milliseconds(run.makespan),
             100 * run.bubble_fraction());
}

nlohmann::json summarize(const ScheduleOptions& options, const LoadedSchedule& loaded,
                         const ScheduledRun& run) {
  nlohmann::json placement = nlohmann::json::array();
  for (std::uint32_t chunk = 0; chunk < loaded.pipeline.chunks(); ++chunk)
    placement.push_back(loaded.pipeline.stage_of(static_cast<Chunk>(chunk)));
  nlohmann::json stages = nlohmann::json::array();
  nlohmann::json peaks = nlohmann::json::array();
  for (const ScheduledStage& each : run.stages) {
    peaks.push_back(each.peak_in_flight);
    stages.push_back({{"tasks", each.tasks},
                      {"busy_s", 1e-3 * milliseconds(each.busy)},
                      {"bubble_fraction", 1 - milliseconds(each.busy) / milliseconds(run.makespan)},
                      {"peak_in_flight", each.peak_in_flight}});
  }
  return {{"schedule", loaded.schedule.name()},
          {"stages", loaded.pipeline.stages()},
          {"chunks", loaded.pipeline.chunks()},
          {"microbatches", loaded.pipeline.microbatches()},
          {"placement", placement},
          {"emulate", options.emulate},
          {"makespan_s", 1e-3 * milliseconds(run.makespan)},
          {"bubble_fraction", run.bubble_fraction()},
          {"peak_in_flight", peaks},
          {"per_stage", stages}};
}

void write_csv(const ScheduleOptions& options, const Schedule& schedule) {
  if (options.csv_to_stdout()) {
    fmt::print("{}", to_csv(schedule));
  } else if (!options.csv.empty()) {
    trace::write_file_atomically(options.csv, to_csv(schedule));
    fmt::print("{:<10} {}\n", "csv", options.csv);
  }
}

void run_command(const ScheduleOptions& options) {
  const host::DurationModel times = host::DurationModel::parse(options.emulate);
  check_paths(options);
  const LoadedSchedule loaded = load_schedule(options.source, options.sizes);
  if (options.check) {
    check(loaded);
    if (!options.csv_to_stdout()) {
      fmt::print("valid: ");
      print_title(loaded);
    }
  } else {
    loaded.schedule.validate(loaded.pipeline);
  }
  const bool summary = !options.check && !options.csv_to_stdout();
  if (summary || !options.output.given().empty()) {
    const ScheduledRun run = run_schedule(loaded, times);
    if (summary) {
      print_title(loaded);
      print_run(run);
    }
    Results results;
    results.summary = summarize(options, loaded, run);
    results.timelines.push_back(run.timeline);
    if (!options.csv_to_stdout()) write_results(options.output, results);
  }
  write_csv(options, loaded.schedule);
}

void declare_sizes(CLI::App& command, ScheduleSizes& sizes) {
  command.add_option("--stages", sizes.stages, "Pipeline stages (default: 4, or the file's)");
  command.add_option("--microbatches", sizes.microbatches, "Microbatches (default: 8, or the file's)");
  command.add_option("--chunks-per-stage,--chunks", sizes.chunks_per_stage,
                     "Chunks on each stage (default: 1, 2 for interleaved, looped-bfs, zb-v and dualpipe-v, "
                     "or the file's)");
}

}  // namespace

void add_schedule(CLI::App& app) {
  auto options = std::make_shared<ScheduleOptions>();
  CLI::App* command =
      app.add_subcommand("schedule", "Show, check, convert or draw a fixed schedule, run in virtual time");
  std::string names;
  for (const std::string_view name : Schedule::names()) names.append(names.empty() ? "" : ", ").append(name);
  command
      ->add_option("schedule", options->source,
                   "One of " + names + "; or a file in the CSV notation of torch.distributed.pipelining")
      ->required();
  declare_sizes(*command, options->sizes);
  command
      ->add_option(
          "--emulate", options->emulate,
          "Times of a whole stage, divided by its chunks: f=1ms,b=2ms,w=1ms (b is the whole backward)")
      ->capture_default_str();
  command->add_flag("--check", options->check,
                    "Only say whether every task is there once and the orders can be executed together: exit "
                    "code 0, or 2 and the first fault of every rank");
  command->add_option("--csv", options->csv,
                      "Write the schedule in that notation; - for the standard output");
  command->add_option("--timeline", options->output.timeline,
                      "Draw the run: an interactive HTML page, or an SVG picture if the path ends in .svg");
  command->add_option("--json", options->output.json, "Write makespan, bubble and memory as JSON");
  command->footer(
      "Examples:\n"
      "  sluice schedule zb-v --stages 4 --microbatches 8\n"
      "  sluice schedule interleaved --stages 4 --microbatches 16 --chunks-per-stage 2 --csv "
      "interleaved.csv\n"
      "  sluice schedule from_torch.csv --check\n"
      "  sluice schedule from_torch.csv --emulate f=10ms,b=20ms,w=10ms,sigma=0.2 --timeline run.html");
  command->callback([options, command] {
    refuse_empty_values(*command);
    run_command(*options);
  });
}

}  // namespace sluice::tools
