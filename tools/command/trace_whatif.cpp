#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command/trace_commands.hpp"
#include "method/method.hpp"
#include "option/options.hpp"
#include "option/trace_input.hpp"
#include "report/progress_bar.hpp"
#include "report/trace_report.hpp"
#include "run/what_if.hpp"
#include "sluice/error.hpp"

namespace sluice::tools {
namespace {

struct WhatIfOptions {
  std::string file;
  std::vector<std::string> methods;
  std::uint32_t limit = 0;
  std::string rules = "default";
  std::string accumulate = "order";
  double weight_grad_share = kDefaultWeightGradShare;
  bool check = false;
  std::string json;
};

/// Part of a whole backward that is its weight gradient, as far as the settings of the recording tell.
double share_of(const WhatIfOptions& options, const CLI::App& command, const trace::Recording& recording) {
  if (command.count("--weight-grad-share") > 0) {
    if (!(options.weight_grad_share >= 0 && options.weight_grad_share <= 1))
      throw ConfigError("weight-grad-share", "must lie in 0 to 1");
    return options.weight_grad_share;
  }
  return recorded_share(recording);
}

/// What bounds the recorded method, but for what the command line changes.
MethodSettings settings_for(const trace::RecordedRun& run, const WhatIfOptions& options,
                            const CLI::App& command) {
  MethodSettings settings{run.limits, false, run.rules};
  if (command.count("--limit") > 0) {
    settings.limits.assign(run.pipeline.stages(), options.limit);
    settings.limit_given = true;
  }
  if (command.count("--rules") > 0 || command.count("--accumulate") > 0)
    settings.rules = parse_rules(options.rules, options.accumulate, command.count("--accumulate") > 0);
  return settings;
}

/// A prediction beside what really happened, where that is on record.
struct Compared {
  std::string from;
  std::string method;
  /// None where the method was recorded on other places of the chunks than the run's.
  std::optional<Prediction> prediction;
  std::optional<double> recorded_s;

  [[nodiscard]] std::optional<double> error() const {
    if (!prediction || !recorded_s || *recorded_s <= 0) return std::nullopt;
    return prediction->total_seconds() / *recorded_s - 1;
  }
};

/// The method's own run, if it was recorded.
const trace::RecordedRun* recorded_as(const trace::Recording& recording, const std::string& method) {
  for (const trace::RecordedRun& run : recording.runs) {
    if (run.method == method) return &run;
  }
  return nullptr;
}

/// The same chunks on the same stages: the tasks of one are those of the other.
bool same_places(const Pipeline& a, const Pipeline& b) {
  if (a.stages() != b.stages() || a.chunks() != b.chunks() || a.microbatches() != b.microbatches())
    return false;
  for (std::uint32_t chunk = 0; chunk < a.chunks(); ++chunk) {
    if (a.stage_of(static_cast<Chunk>(chunk)) != b.stage_of(static_cast<Chunk>(chunk))) return false;
  }
  return std::equal(a.edges().begin(), a.edges().end(), b.edges().begin(), b.edges().end());
}

/// Each of the runs under each of the methods. A method that was recorded on other places of the chunks is
/// left out, unless it was asked for by name from one run.
std::vector<Compared> compare(const trace::Recording& recording,
                              const std::vector<const trace::RecordedRun*>& runs,
                              const std::vector<std::string>& methods, const WhatIfOptions& options,
                              const CLI::App& command) {
  const double share = share_of(options, command, recording);
  const bool as_recorded =
      command.count("--limit") + command.count("--rules") + command.count("--accumulate") == 0;
  const bool asked = !options.methods.empty() && !options.check;
  std::vector<Compared> results;
  ProgressBar bar("prediction", runs.size() * methods.size());
  for (const trace::RecordedRun* run : runs) {
    const RecordedTimes times(*run, share);
    for (const std::string& name : methods) {
      const trace::RecordedRun* own = recorded_as(recording, name);
      const bool fits = own == nullptr || same_places(own->pipeline, run->pipeline);
      Compared& result = results.emplace_back(Compared{run->method, name, std::nullopt, std::nullopt});
      if (fits || asked) {
        const Method method(name, run->pipeline.with_split(false), settings_for(*run, options, command));
        result.prediction = predict(*run, times, method);
      }
      if (as_recorded && own != nullptr && fits) result.recorded_s = total_seconds(*own);
      bar.show(results.size(), fmt::format("{} from {}", name, run->method));
    }
  }
  return results;
}

nlohmann::json to_json(const std::vector<Compared>& results) {
  nlohmann::json all = nlohmann::json::array();
  for (const Compared& each : results) {
    nlohmann::json entry = {{"recorded_method", each.from}, {"method", each.method}};
    if (!each.prediction) {
      for (const char* name : {"predicted_s", "iteration_seconds", "bubble_fraction", "peak_in_flight"})
        entry[name] = nullptr;
      all.push_back(std::move(entry));
      continue;
    }
    entry["predicted_s"] = each.prediction->total_seconds();
    entry["iteration_seconds"] = each.prediction->iteration_seconds;
    entry["bubble_fraction"] = each.prediction->bubble_fraction;
    entry["peak_in_flight"] = each.prediction->peak_in_flight;
    if (each.recorded_s) entry["recorded_s"] = *each.recorded_s;
    if (each.error()) entry["error"] = *each.error();
    all.push_back(std::move(entry));
  }
  return all;
}

void print(const std::vector<Compared>& results, double recorded_s) {
  fmt::print("\n{:<14}  {:<14}  {:>12}  {:>8}  {:>7}  {:>12}  {:>7}\n", "recorded", "method", "predicted",
             "speed-up", "bubble", "really", "error");
  for (const Compared& each : results) {
    if (!each.prediction) {
      fmt::print("{:<14}  {:<14}  does not fit\n", each.from, each.method);
      continue;
    }
    fmt::print("{:<14}  {:<14}  {:>9.1f} ms  {:>7.2f}x  {:>6.1f}%", each.from, each.method,
               1e3 * each.prediction->total_seconds(), recorded_s / each.prediction->total_seconds(),
               100 * each.prediction->bubble_fraction);
    if (each.recorded_s) fmt::print("  {:>9.1f} ms", 1e3 * *each.recorded_s);
    if (each.error()) fmt::print("  {:>+6.1f}%", 100 * *each.error());
    fmt::print("\n");
  }
}

void run_whatif(const WhatIfOptions& options, const CLI::App& command) {
  refuse_empty_values(command);
  check_json_path(options.json);
  const TraceInput input = TraceInput::parse(options.file);
  const trace::Recording recording = load_recording(input.path);
  const trace::RecordedRun& run = select_run(recording, input);
  std::vector<std::string> methods = options.methods;
  std::vector<const trace::RecordedRun*> runs{&run};
  if (options.check) {
    runs.clear();
    for (const trace::RecordedRun& each : recording.runs) runs.push_back(&each);
  }
  if (methods.empty()) {
    for (const trace::RecordedRun& each : recording.runs) methods.push_back(each.method);
  }
  const std::vector<Compared> results = compare(recording, runs, methods, options, command);
  print(results, total_seconds(run));
  const nlohmann::json json = {{"file", input.path},
                               {"recorded_method", run.method},
                               {"recorded_s", total_seconds(run)},
                               {"predictions", to_json(results)}};
  write_json(options.json, json);
}

}  // namespace

void add_trace_whatif(CLI::App& trace) {
  auto options = std::make_shared<WhatIfOptions>();
  CLI::App* command = trace.add_subcommand(
      "whatif", "Simulate a recorded run's tasks and messages under other methods, limits or rules");
  command->add_option("file", options->file, "Recording, FILE or FILE#METHOD")->required();
  command
      ->add_option("--methods", options->methods,
                   "Hints and schedules, separated by commas (default: those that were recorded)")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--limit", options->limit,
                      "Most microbatches in flight on a stage (default: as recorded)");
  command->add_option("--rules", options->rules, "default or paper (default: as recorded)");
  command->add_option("--accumulate", options->accumulate, "order or any (default: as recorded)");
  command->add_option("--weight-grad-share", options->weight_grad_share,
                      "Part of a whole backward that is its weight gradient, where none was recorded split "
                      "(default: that of the emulated device, or 0.5)");
  command->add_flag("--check", options->check,
                    "Predict every method from the recording of each, and show the errors");
  command->add_option("--json", options->json, "Write the results as JSON");
  command->footer(
      "Message times are those from sending to noticing, with what the transport adds; tasks are as long as "
      "they were. Speed-ups are over the recorded run. A method that was recorded on another placement of "
      "the chunks does not fit a run: it is listed, but not predicted.\n"
      "Examples: sluice trace whatif run.json --methods 1f1b,bf,bfw\n"
      "          sluice trace whatif 'run.json#1f1b' --methods bf --limit 8\n"
      "          sluice trace whatif run.json --check");
  command->callback([options, command] { run_whatif(*options, *command); });
}

}  // namespace sluice::tools
