#include "option/simulate_options.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "method/method_list.hpp"
#include "option/scenario_file.hpp"
#include "option/units.hpp"
#include "run/simulation.hpp"
#include "sluice/error.hpp"

namespace sluice::tools {
namespace {

constexpr unsigned kMostThreads = 1024;

bool given(const CLI::App& command, const char* option) { return command.count(option) > 0; }

/// Reads `task=80us,hop=20us`, in any order.
sim::Overhead parse_overhead(std::string_view text) {
  sim::Overhead overhead;
  std::set<std::string_view> seen;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = text.substr(begin, end - begin);
    const std::string_view key = item.substr(0, item.find('='));
    if (key.size() == item.size() || (key != "task" && key != "hop") || !seen.insert(key).second)
      throw ConfigError("overhead", fmt::format("{} is not task=TIME,hop=TIME", in_quotes(text)));
    (key == "task" ? overhead.task : overhead.hop) = parse_duration("overhead", item.substr(key.size() + 1));
    begin = end + 1;
  }
  return overhead;
}

/// What describes the model stands in the file alone.
void refuse_beside_a_file(const CLI::App& command) {
  for (const char* option : {"--stages", "--chunks-per-stage", "--microbatches", "--emulate"}) {
    if (given(command, option))
      throw ConfigError(std::string(option).substr(2), "is given by the scenario, not on the command line");
  }
}

/// What the command line says of a scenario's run wins over the file.
void apply_run(const PipelineOptions& run, const CLI::App& command, sim::Scenario& scenario) {
  if (LimitOptions::given(command)) {
    scenario.limits =
        run.limit.limits(command, chunks_by_stage(scenario.pipeline), scenario.pipeline.microbatches());
    scenario.limit_given = true;
  }
  if (given(command, "--rules") || given(command, "--accumulate")) scenario.rules = run.pipeline.rules;
  if (given(command, "--launch-ahead")) scenario.depth = run.launch_ahead;
  if (given(command, "--seed")) scenario.seed = run.seed;
  if (given(command, "--jitter")) {
    for (sim::Link& link : scenario.links) link.jitter = run.delays();
  }
  if (given(command, "--jitter-average")) {
    scenario.nominal_compute.reset();
    if (run.jitter_average == "nominal") scenario.nominal_compute = nominal_compute(scenario.times);
  }
}

/// They would do nothing: one rank agrees with nobody.
void refuse_without_a_group(const CLI::App& command, const sim::Scenario& scenario) {
  if (scenario.group.size != 1) return;
  for (const char* option : {"--group-rule", "--agreement", "--agreement-latency", "--skew"}) {
    if (given(command, option))
      throw ConfigError(std::string(option).substr(2), "needs a group of at least 2 ranks (--group)");
  }
}

void apply_surroundings(const SimulateOptions& options, const CLI::App& command, sim::Scenario& scenario) {
  if (given(command, "--group")) scenario.group.size = options.group;
  if (given(command, "--group-rule")) {
    if (options.group_rule != "common" && options.group_rule != "first-pick") {
      throw ConfigError("group-rule",
                        fmt::format("{} is not one of common, first-pick", in_quotes(options.group_rule)));
    }
    scenario.group.rule =
        options.group_rule == "common" ? sim::GroupRule::CommonCandidate : sim::GroupRule::FirstPick;
  }
  if (given(command, "--agreement")) {
    if (given(command, "--group-rule"))
      throw ConfigError("group-rule",
                        "is of the model of an agreement, and --agreement runs the runtime's own");
    scenario.group.form = agree::form_named(options.agreement);
    if (!scenario.group.form) {
      throw ConfigError("agreement", fmt::format("{} is not one of leader, first-pick, bitmap",
                                                 in_quotes(options.agreement)));
    }
  } else if (given(command, "--group-rule")) {
    scenario.group.form.reset();
  }
  if (given(command, "--agreement-latency"))
    scenario.group.latency = parse_duration("agreement-latency", options.agreement_latency);
  if (given(command, "--skew")) scenario.skew = parse_skew("skew", options.skew);
  refuse_without_a_group(command, scenario);
  if (given(command, "--replicas")) scenario.replicas = options.replicas;
  if (given(command, "--overhead")) scenario.overhead = parse_overhead(options.overhead);
  if (given(command, "--latency")) {
    for (sim::Link& link : scenario.links) link.latency = parse_duration("latency", options.latency);
  }
}

nlohmann::json config_of(const SimulateOptions& options, const Simulation& simulation) {
  const sim::Scenario& scenario = simulation.scenario;
  nlohmann::json config = options.run.to_json();
  if (!options.file.empty()) {
    for (const char* key : {"chunks_per_stage", "limit", "jitter"}) config.erase(key);
    config["scenario"] = options.file;
    config["name"] = scenario.name;
  }
  const auto in_seconds = [](Duration time) { return std::chrono::duration<double>(time).count(); };
  config.update({{"stages", scenario.pipeline.stages()},
                 {"microbatches", scenario.pipeline.microbatches()},
                 {"limits", simulation.methods.front().settings().limits},
                 {"equal_memory", options.equal_memory},
                 {"launch_ahead", scenario.depth},
                 {"seed", scenario.seed},
                 {"seeds", simulation.seeds},
                 {"group", scenario.group.size},
                 {"group_rule", scenario.group.rule == sim::GroupRule::FirstPick ? "first-pick" : "common"},
                 {"agreement", scenario.group.form ? agree::name(*scenario.group.form) : "model"},
                 {"agreement_latency_s", in_seconds(scenario.group.latency)},
                 {"skew_mean_s", in_seconds(scenario.skew.mean)},
                 {"replicas", scenario.replicas},
                 {"overhead_task_s", in_seconds(scenario.overhead.task)},
                 {"overhead_hop_s", in_seconds(scenario.overhead.hop)}});
  return config;
}

}  // namespace

sim::Scenario emulated_scenario(const PipelineOptions& run) {
  if (!run.emulated())
    throw ConfigError("emulate", "give the times of a task, for example f=10ms,b=20ms,w=10ms, or a scenario");
  const PipelineSettings& sizes = run.pipeline;
  sim::Scenario scenario(Pipeline::interleaved(sizes.stages, sizes.chunks_per_stage, sizes.microbatches));
  std::fill(scenario.times.begin(), scenario.times.end(), run.durations().per_chunk(sizes.chunks_per_stage));
  scenario.limits = sizes.limits;
  scenario.limit_given = sizes.limit_given;
  scenario.rules = sizes.rules;
  scenario.depth = run.launch_ahead;
  scenario.seed = run.seed;
  for (sim::Link& link : scenario.links) link.jitter = run.delays();
  scenario.nominal_compute = run.nominal_compute();
  return scenario;
}

void SimulateOptions::declare(CLI::App& command) {
  constexpr const char* group_name = "Simulation";
  command.add_option("scenario", file,
                     "A scenario (TOML, docs/simulate.md) in place of the pipeline options");
  command
      .add_option("--methods", methods,
                  "Hints and schedules, separated by commas; speed-ups are over the first")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->capture_default_str();
  command.add_option("--seeds", seeds, "Draws of each method: iterations 1 to K of `compare` with that seed")
      ->check(check_whole_number)
      ->capture_default_str();
  command.add_flag("--equal-memory", equal_memory,
                   "Every method has, stage by stage, the slots that the first one, a schedule, needs");
  command.add_option("--config", config, "Read options from a TOML file; the command line wins");
  run.declare(command);
  command.add_option("--latency", latency, "Time that every message takes: 20us")->group(group_name);
  command.add_option("--group", group, "Ranks that run each stage together (tensor parallelism)")
      ->capture_default_str()
      ->group(group_name);
  command
      .add_option("--group-rule", group_rule,
                  "How they agree: common (best task runnable on all) or first-pick (RRFP's)")
      ->capture_default_str()
      ->group(group_name);
  command
      .add_option("--agreement", agreement,
                  "Run the runtime's own agreement in place of a model: leader, first-pick or bitmap")
      ->group(group_name);
  command
      .add_option("--agreement-latency", agreement_latency,
                  "Time an agreement takes, or with --agreement each of its messages: 50us")
      ->group(group_name);
  command.add_option("--skew", skew, "Lateness of each rank's messages: exponential:MEAN or uniform:MEAN")
      ->group(group_name);
  command.add_option("--replicas", replicas, "Data-parallel copies; the slowest ends the iteration")
      ->capture_default_str()
      ->group(group_name);
  command
      .add_option("--overhead", overhead, "What a runtime adds to each task and message: task=80us,hop=20us")
      ->group(group_name);
  command.add_option("--threads", threads, "Threads, 0 for one a core; results do not depend on it")
      ->capture_default_str()
      ->group(group_name);
  declare_output(command, output);
}

Simulation prepare(SimulateOptions& options, const CLI::App& command) {
  options.run.finish(command);
  std::vector<std::string> inputs;
  if (!options.file.empty()) inputs.push_back(options.file);
  if (!options.config.empty()) inputs.push_back(options.config);
  options.output.check(inputs);
  const bool from_file = given(command, "scenario");
  if (from_file) {
    refuse_beside_a_file(command);
  } else {
    options.run.set_limits(command);
  }
  ScenarioFile read =
      from_file ? read_scenario(options.file) : ScenarioFile{emulated_scenario(options.run), {}, {}, {}};
  if (!read.methods.empty() && !given(command, "--methods")) options.methods = read.methods;
  if (read.seeds && !given(command, "--seeds")) options.seeds = *read.seeds;
  if (options.threads > kMostThreads)
    throw ConfigError("threads", fmt::format("must be 0 to {}", kMostThreads));
  if (options.seeds == 0 || options.seeds > kMostSeeds)
    throw ConfigError("seeds", fmt::format("must be 1 to {}", kMostSeeds));
  if (from_file) apply_run(options.run, command, read.scenario);
  apply_surroundings(options, command, read.scenario);
  read.scenario.validate();
  Simulation simulation{std::move(read.scenario), {}, options.seeds, {}};
  simulation.methods = make_methods(options.methods, options.equal_memory,
                                    method_settings(simulation.scenario), [&](const std::string& name) {
                                      return from_file ? simulation.scenario.pipeline
                                                       : Method::pipeline_for(name, options.run.pipeline);
                                    });
  simulation.config = config_of(options, simulation);
  return simulation;
}

}  // namespace sluice::tools
