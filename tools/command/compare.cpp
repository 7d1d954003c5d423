#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command/commands.hpp"
#include "method/method.hpp"
#include "method/method_list.hpp"
#include "option/options.hpp"
#include "option/toml_config.hpp"
#include "report/progress_bar.hpp"
#include "report/results.hpp"
#include "run/method_run.hpp"
#include "run/prediction.hpp"
#include "run/process_session.hpp"
#include "run/profiling.hpp"
#include "run/spawn.hpp"
#include "run/speed_up.hpp"
#include "sluice/error.hpp"

namespace sluice::tools {
namespace {

struct CompareOptions {
  RunOptions run;
  std::vector<std::string> methods{"1f1b", "bf", "bfw", "zb-h1"};
  std::uint64_t iterations = 8;
  bool equal_memory = false;
  bool simulate = false;
  std::string config;
};

using Runs = std::vector<std::unique_ptr<MethodRun>>;

Runs prepare(const CompareOptions& options, const Profiling& profiling, ProcessSession* session) {
  const PipelineSettings& settings = options.run.pipeline;
  const std::vector<Method> methods =
      make_methods(options.methods, options.equal_memory, method_settings(settings),
                   [&](const std::string& name) { return Method::pipeline_for(name, settings); });
  Runs runs;
  for (const Method& method : methods)
    runs.push_back(std::make_unique<MethodRun>(options.run, method, profiling, session));
  return runs;
}

/// Iteration by iteration, each under every method, so that what else the machine does falls on all.
void run_interleaved(Runs& runs, Profiling& profiling, std::uint64_t iterations, bool shown) {
  ProgressBar bar("iteration", iterations, shown);
  profiling.begins(0);
  for (auto& run : runs) run->run({0, IterationKind::Training}, false);
  profiling.ended(0);
  for (std::uint64_t i = 1; i <= iterations; ++i) {
    std::string line;
    profiling.begins(i);
    for (auto& run : runs) {
      run->run({i, IterationKind::Training});
      line += fmt::format("{}{} {:.0f} ms", line.empty() ? "" : "  ", run->name(),
                          1e3 * run->statistics().iteration_seconds().back());
    }
    profiling.ended(i);
    bar.show(i, line);
  }
}

nlohmann::json configuration(const CompareOptions& options) {
  nlohmann::json config = options.run.to_json();
  config["iterations"] = options.iterations;
  config["equal_memory"] = options.equal_memory;
  return config;
}

nlohmann::json summarize(const CompareOptions& options, const Runs& runs) {
  nlohmann::json methods = nlohmann::json::array();
  for (const auto& run : runs) {
    const RunStatistics& statistics = run->statistics();
    const SpeedUp over_first =
        speed_up(runs.front()->statistics().iteration_seconds(), statistics.iteration_seconds());
    methods.push_back({{"name", run->name()},
                       {"median_iteration_s", statistics.median_seconds()},
                       {"iteration_seconds", statistics.iteration_seconds()},
                       {"speedup_vs_first", over_first.of_medians},
                       {"speedup_range", {over_first.lowest, over_first.highest}},
                       {"bubble_fraction", statistics.bubble_fraction()},
                       {"per_stage", statistics.per_stage()}});
    if (const auto overhead = run->overhead()) {
      const auto seconds = [](Duration time) { return std::chrono::duration<double>(time).count(); };
      methods.back()["overhead"] = {{"task_s", seconds(overhead->task)}, {"hop_s", seconds(overhead->hop)}};
    }
    if (const auto agreement = run->agreement()) methods.back()["agreement"] = to_json(*agreement);
    if (const auto sha256 = run->parameters_sha256()) methods.back()["parameters_sha256"] = *sha256;
  }
  return {{"config", configuration(options)}, {"methods", methods}};
}

/// Bytes at the peak of each stage; nothing if what a microbatch takes was not given.
std::vector<std::uint64_t> memory_of(const CompareOptions& options, std::span<const std::uint32_t> peaks) {
  const std::vector<std::uint64_t> bytes = options.run.limit.bytes(peaks.size());
  const std::vector<std::uint32_t> chunks(peaks.size(), options.run.pipeline.chunks_per_stage);
  return bytes.empty() ? std::vector<std::uint64_t>{} : peak_memory(peaks, bytes, chunks);
}

void report(const CompareOptions& options, const Runs& runs) {
  fmt::print("\n{:<12}  {:>12}  {:>8}  {:>13}  {:>7}  {:>9}  {:>9}\n", "method", "median", "speed-up",
             "range", "bubble", "in flight", "reordered");
  for (const auto& run : runs) {
    const RunStatistics& statistics = run->statistics();
    const SpeedUp over_first =
        speed_up(runs.front()->statistics().iteration_seconds(), statistics.iteration_seconds());
    std::uint32_t peak = 0;
    std::uint64_t reordered = 0;
    for (const StageStatistics& stage : statistics.stages()) {
      peak = std::max(peak, stage.peak_in_flight);
      reordered += stage.reordered;
    }
    fmt::print("{:<12}  {:>9.1f} ms  {:>7.2f}x  {:>5.2f} to {:>4.2f}  {:>6.1f}%  {:>9}  {:>9}\n", run->name(),
               1e3 * statistics.median_seconds(), over_first.of_medians, over_first.lowest,
               over_first.highest, 100 * statistics.bubble_fraction(), peak, reordered);
  }
  fmt::print("\n");
  for (const auto& run : runs) {
    const std::optional<sim::Overhead> overhead = run->overhead();
    if (!overhead) continue;
    fmt::print("{:<12}  what the runtime adds, for simulate: --overhead task={}us,hop={}us\n", run->name(),
               overhead->task / std::chrono::microseconds(1), overhead->hop / std::chrono::microseconds(1));
  }
  for (const auto& run : runs) {
    const std::optional<GroupStatistics> agreement = run->agreement();
    if (!agreement || agreement->decisions == 0) continue;
    const auto tasks = static_cast<double>(agreement->decisions);
    fmt::print(
        "{:<12}  agreement: devices idle for it {:.3f}% of the time (at most {:.3f}%), {:.2f} deferrals a "
        "task, first picks differed in {:.0f}% of decisions\n",
        run->name(), 100 * agreement->idle_share, 100 * agreement->highest_idle_share,
        static_cast<double>(agreement->deferrals) / tasks,
        100 * static_cast<double>(agreement->picks_differed) / tasks);
  }
  if (options.equal_memory || !options.run.limit.activation_bytes.empty()) {
    for (const auto& run : runs) {
      const auto peaks = run->statistics().peaks_in_flight();
      fmt::print("{:<12}  {}\n", run->name(), peak_text(peaks, memory_of(options, peaks)));
    }
  }
  fmt::print("\n");
}

void report_predictions(const Runs& runs, const std::vector<RunPrediction>& predictions) {
  fmt::print("{:<16}  {:>14}  {:>7}  {:>22}  {:>7}\n", "simulated", "all iterations", "error",
             "with measured overhead", "error");
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunPrediction& prediction = predictions[i];
    fmt::print("{:<16}  {:>11.1f} ms  {:>+6.2f}%  {:>19.1f} ms  {:>+6.2f}%\n", runs[i]->name(),
               1e3 * prediction.total_s, 100 * prediction.error, 1e3 * prediction.total_with_overhead_s,
               100 * prediction.error_with_overhead);
  }
  fmt::print("\n");
}

nlohmann::json to_json(const RunPrediction& prediction) {
  return {{"total_s", prediction.total_s},
          {"error", prediction.error},
          {"total_with_overhead_s", prediction.total_with_overhead_s},
          {"error_with_overhead", prediction.error_with_overhead}};
}

void compare(const CompareOptions& options, ProcessSession* session) {
  const bool shown = leads(session);
  Profiling profiling(options.run.profile);
  Runs runs = prepare(options, profiling, session);
  run_interleaved(runs, profiling, options.iterations, shown);
  Results results;
  results.summary = summarize(options, runs);
  if (!shown) return;
  for (const auto& run : runs) {
    results.timelines.push_back(run->statistics().timeline());
    results.decisions.push_back(run->decisions());
    if (auto recorded = run->recorded()) results.recorded.push_back(std::move(*recorded));
  }
  report(options, runs);
  if (options.simulate) {
    const std::vector<RunPrediction> predictions = predict_runs(options.run, runs, options.iterations);
    for (std::size_t i = 0; i < runs.size(); ++i)
      results.summary["methods"][i]["simulated"] = to_json(predictions[i]);
    report_predictions(runs, predictions);
  }
  write_results(options.run.output, results);
}

void run_compare(CompareOptions& options, CLI::App& command) {
  if (!options.config.empty()) apply_toml(command, options.config);
  options.run.finish(command);
  if (options.iterations == 0) throw ConfigError("iterations", "must be at least 1");
  options.run.profile.check_within(options.iterations);
  if (options.simulate && !options.run.lead.empty())
    throw ConfigError("simulate", "simulated devices launch ahead at any time: leave --lead out");
  if (options.simulate && (!options.run.emulated() || options.run.delays().uses_average())) {
    throw ConfigError("simulate",
                      "needs --emulate, and delays that do not depend on measured times (j0, tail)");
  }
  const auto told = [&options] {
    nlohmann::json all = options.run.same_everywhere(configuration(options));
    all["methods"] = options.methods;
    return all;
  };
  run_in_processes(options.run, told, [&options](ProcessSession* session) { compare(options, session); });
}

}  // namespace

void add_compare(CLI::App& app) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* command =
      app.add_subcommand("compare", "Run the same settings under several methods, side by side");
  command
      ->add_option("--methods", options->methods,
                   "Hints and schedules, separated by commas; speed-ups are over the first")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->capture_default_str();
  command->add_option("--iterations", options->iterations, "Measured iterations of each method")
      ->check(check_whole_number)
      ->capture_default_str();
  command->add_flag("--equal-memory", options->equal_memory,
                    "Every method has, stage by stage, the slots that the first one, a schedule, needs");
  command->add_flag("--simulate", options->simulate,
                    "Also simulate every method on the same draws, without and with what the runtime added");
  command->add_option("--config", options->config, "Read options from a TOML file; the command line wins");
  options->run.declare(*command);
  command->footer(
      "Example: sluice compare --emulate f=10ms,b=20ms,w=10ms --stages 8 --microbatches 64 --jitter "
      "tail:0.3,10 "
      "--methods 1f1b,bf,bfw");
  command->callback([options, command] { run_compare(*options, *command); });
}

}  // namespace sluice::tools
