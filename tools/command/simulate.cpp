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
#include "option/simulate_options.hpp"
#include "option/toml_config.hpp"
#include "report/progress_bar.hpp"
#include "report/results.hpp"
#include "run/last_draw.hpp"
#include "run/simulation.hpp"
#include "run/speed_up.hpp"

namespace sluice::tools {
namespace {

constexpr auto kLongWait = std::chrono::seconds(1);

nlohmann::json to_json(const SimulatedMethod& method, const SimulatedMethod& first) {
  const SpeedUp over_first = speed_up(first.makespans, method.makespans);
  return {{"name", method.name},
          {"makespan_s", method.median_makespan()},
          {"makespans_s", method.makespans},
          {"speedup_vs_first", over_first.of_medians},
          {"speedup_range", {over_first.lowest, over_first.highest}},
          {"bubble_fraction", method.bubble_fraction()},
          {"peak_in_flight", method.peak_in_flight},
          {"bound_ratio", method.bound_ratio()},
          {"bounds_s", method.bounds},
          {"compute_s", method.at_median(method.compute)},
          {"blocked_s", method.at_median(method.blocked)},
          {"agreement_s", method.at_median(method.agreement)},
          {"decisions", method.decisions},
          {"deferrals", method.deferrals},
          {"deferrals_per_task", method.deferrals_per_task()},
          {"first_picks_differed", method.picks_differed}};
}

void print_table(const std::vector<SimulatedMethod>& methods) {
  fmt::print("{:<16}  {:>12}  {:>8}  {:>13}  {:>7}  {:>8}  {:>8}  {:>9}  {:>9}  {:>8}\n", "method", "median",
             "speed-up", "range", "bubble", "compute", "blocked", "agreement", "in flight", "of bound");
  for (const SimulatedMethod& method : methods) {
    const SpeedUp over_first = speed_up(methods.front().makespans, method.makespans);
    const double median = method.median_makespan();
    const auto share = [&](const std::vector<double>& part) {
      return median > 0 ? 100 * method.at_median(part) / median : 0.0;
    };
    fmt::print(
        "{:<16}  {:>9.2f} ms  {:>7.3f}x  {:>5.2f} to {:>4.2f}  {:>6.1f}%  {:>7.1f}%  {:>7.1f}%  {:>8.2f}%  "
        "{:>9}  {:>7.3f}x\n",
        method.name, 1e3 * median, over_first.of_medians, over_first.lowest, over_first.highest,
        100 * method.bubble_fraction(), share(method.compute), share(method.blocked), share(method.agreement),
        *std::max_element(method.peak_in_flight.begin(), method.peak_in_flight.end()), method.bound_ratio());
  }
}

/// What the groups' agreeing took.
void print_agreements(const std::vector<SimulatedMethod>& methods) {
  for (const SimulatedMethod& method : methods) {
    if (method.decisions == 0) continue;
    fmt::print("{:<16}  {} decisions, {:.3f} deferrals a task\n", method.name, method.decisions,
               method.deferrals_per_task());
  }
}

std::vector<SimulatedMethod> run(const Simulation& simulation, unsigned threads, LastDraw& last) {
  SimulationSettings settings;
  settings.seeds = simulation.seeds;
  settings.threads = threads;
  std::optional<ProgressBar> bar;
  const auto started = std::chrono::steady_clock::now();
  settings.progress = [&](std::size_t done, std::size_t all) {
    if (std::chrono::steady_clock::now() - started < kLongWait) return;
    if (!bar) bar.emplace("simulation", all);
    bar->show(done, "");
  };
  last.watch(settings);
  return simulate_methods(simulation.scenario, simulation.methods, settings);
}

/// Bytes at the peak of each stage; nothing if what a microbatch takes was not given.
std::vector<std::uint64_t> memory_of(const SimulateOptions& options, const Method& method,
                                     const SimulatedMethod& simulated) {
  const std::vector<std::uint64_t> bytes = options.run.limit.bytes(simulated.peak_in_flight.size());
  if (bytes.empty()) return {};
  return peak_memory(simulated.peak_in_flight, bytes, chunks_by_stage(method.pipeline()));
}

void run_simulate(SimulateOptions& options, CLI::App& command) {
  if (!options.config.empty()) apply_toml(command, options.config);
  const Simulation simulation = prepare(options, command);
  const OutputOptions& output = options.output;
  LastDraw last(simulation.scenario, simulation.methods, simulation.seeds,
                {.timelines = !output.timeline.empty() || !output.trace.empty(),
                 .decisions = !output.decisions.empty(),
                 .recordings = !output.record.empty()});
  const std::vector<SimulatedMethod> methods = run(simulation, options.threads, last);
  print_table(methods);
  print_agreements(methods);
  const bool by_stage = options.equal_memory || !options.run.limit.activation_bytes.empty();
  for (std::size_t i = 0; by_stage && i < methods.size(); ++i) {
    fmt::print("{:<16}  {}\n", methods[i].name,
               peak_text(methods[i].peak_in_flight, memory_of(options, simulation.methods[i], methods[i])));
  }
  Results results;
  nlohmann::json rows = nlohmann::json::array();
  for (std::size_t i = 0; i < methods.size(); ++i) {
    rows.push_back(to_json(methods[i], methods.front()));
    const auto memory = memory_of(options, simulation.methods[i], methods[i]);
    if (!memory.empty()) rows.back()["peak_memory_bytes"] = memory;
  }
  results.summary = {{"config", simulation.config}, {"methods", std::move(rows)}};
  results.timelines = last.timelines();
  results.decisions = last.decisions();
  results.recorded = last.recordings();
  write_results(output, results);
}

}  // namespace

void add_simulate(CLI::App& app) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* command = app.add_subcommand(
      "simulate", "Run the dispatchers in virtual time, under several methods on the same draws");
  options->declare(*command);
  command->footer(
      "Examples:\n"
      "  sluice simulate --emulate f=10ms,b=20ms,w=10ms,sigma=0.2 --stages 8 --microbatches 64 --jitter "
      "tail:0.3,10\n"
      "  sluice simulate scenario.toml --methods 1f1b,bf,bfw --seeds 20 --json results.json");
  command->callback([options, command] { run_simulate(*options, *command); });
}

}  // namespace sluice::tools
