#include "option/options.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <set>
#include <system_error>

#include "option/units.hpp"
#include "sluice/error.hpp"
#include "sluice/process/process_place.hpp"
#include "sluice/trace/output_file.hpp"

namespace sluice::tools {
namespace {

constexpr double kLongestStallTimeout = 1e6;
constexpr std::uint32_t kMostAhead = 64;
constexpr std::uint32_t kMostStages = std::numeric_limits<StageId>::max();

void declare_model(CLI::App& command, ModelOptions& model) {
  constexpr const char* group = "Model and training";
  model.encoder.declare(command);
  command
      .add_option("--text", model.text, "File or folder of text to learn (default: the project's own docs)")
      ->group(group);
  command.add_option("--layers", model.layers, "Transformer blocks")->capture_default_str()->group(group);
  command.add_option("--width", model.width, "Width of the model")->capture_default_str()->group(group);
  command.add_option("--heads", model.heads, "Attention heads")->capture_default_str()->group(group);
  command.add_option("--context", model.context, "Bytes of one row")->capture_default_str()->group(group);
  command.add_option("--micro-batch-size", model.micro_batch_size, "Rows of one microbatch")
      ->capture_default_str()
      ->group(group);
  command.add_option("--lr", model.learning_rate, "Learning rate of AdamW")
      ->capture_default_str()
      ->group(group);
  command.add_option("--weight-decay", model.weight_decay, "Weight decay of matrices")
      ->capture_default_str()
      ->group(group);
  command.add_option("--clip", model.clip_norm, "Largest global gradient norm, 0 for none")
      ->capture_default_str()
      ->group(group);
  command.add_option("--dropout", model.dropout, "Probability of dropping an activation")
      ->capture_default_str()
      ->group(group);
  command
      .add_flag("--tied-embeddings", model.tied_embeddings, "The output projection is the token embedding")
      ->group(group);
}

/// One path for all spellings of a file.
std::filesystem::path identity_of(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path identity =
      std::filesystem::weakly_canonical(std::filesystem::absolute(path), ignored);
  return ignored ? std::filesystem::path(path) : identity;
}

/// A device or a pipe takes whatever is written to it.
bool shareable(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
}

/// One number where all stages have the same.
nlohmann::json one_or_all(const std::vector<std::uint32_t>& limits) {
  const auto differs = [&](std::uint32_t limit) { return limit != limits.front(); };
  if (limits.empty() || std::any_of(limits.begin(), limits.end(), differs)) return limits;
  return limits.front();
}

}  // namespace

void declare_output(CLI::App& command, OutputOptions& output) {
  constexpr const char* group = "Results";
  command.add_option("--json", output.json, "Write the results as JSON")->group(group);
  command
      .add_option(
          "--timeline", output.timeline,
          "Write a timeline: an interactive HTML page, or an SVG picture of the last iteration if the "
          "path ends in .svg")
      ->group(group);
  command.add_option("--trace", output.trace, "Write a Chrome/Perfetto trace")->group(group);
  command.add_option("--decisions", output.decisions, "Write the decision log of every stage as JSON")
      ->group(group);
  command
      .add_option("--record", output.record,
                  "Record the run: tasks, messages and decisions, for `sluice trace`")
      ->group(group);
}

Rules parse_rules(const std::string& rules, const std::string& accumulate, bool accumulate_given) {
  if (rules != "default" && rules != "paper")
    throw ConfigError("rules", fmt::format("'{}' is not one of default, paper", rules));
  if (accumulate != "order" && accumulate != "any") {
    throw ConfigError("accumulate", fmt::format("'{}' is not one of order, any", accumulate));
  }
  if (rules == "paper" && accumulate_given && accumulate == "order")
    throw ConfigError("accumulate", "the published rules accumulate in any order");
  Rules parsed = rules == "paper" ? Rules::paper() : Rules{};
  if (accumulate == "any") parsed.ordered_accumulation = false;
  return parsed;
}

void refuse_empty_values(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    const std::vector<std::string>& values = option->results();
    if (std::find(values.begin(), values.end(), "") != values.end())
      throw ConfigError(option->get_single_name(), "is empty");
  }
}

std::string check_whole_number(const std::string& text) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc{} && rest == end) return {};
  return fmt::format("must be a whole number below 2^64, not '{}'", text);
}

std::vector<std::pair<std::string, std::string>> OutputOptions::given() const {
  std::vector<std::pair<std::string, std::string>> options = {
      {"json", json}, {"timeline", timeline}, {"trace", trace}, {"decisions", decisions}, {"record", record}};
  std::erase_if(options, [](const auto& option) { return option.second.empty(); });
  return options;
}

void OutputOptions::check(const std::vector<std::string>& inputs) const {
  std::set<std::filesystem::path> taken;
  for (const std::string& input : inputs) taken.insert(identity_of(input));
  for (const auto& [field, path] : given()) {
    trace::check_writable(field, path);
    if (shareable(path) || taken.insert(identity_of(path)).second) continue;
    throw ConfigError(field, fmt::format("{} is also another file of the run", path));
  }
}

void PipelineOptions::declare(CLI::App& command) {
  constexpr const char* group = "Pipeline";
  command.add_option("--stages", pipeline.stages, "Pipeline stages, one rank each")
      ->capture_default_str()
      ->group(group);
  command.add_option("--chunks-per-stage", pipeline.chunks_per_stage, "Chunks of the model on each stage")
      ->capture_default_str()
      ->group(group);
  command.add_option("--microbatches", pipeline.microbatches, "Microbatches of one step")
      ->capture_default_str()
      ->group(group);
  limit.declare(command);
  command.add_option("--rules", rules, "Rules of a round: default, or paper for those of RRFP")
      ->capture_default_str()
      ->group(group);
  command.add_option("--accumulate", accumulate, "Weight gradients in microbatch order, or in any")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--launch-ahead", launch_ahead,
                  "Tasks handed to a device at once, the running one included")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--emulate", emulate,
                  "Emulate the devices: f=2ms,b=4ms,w=2ms,sigma=0.2 (b is the whole backward)")
      ->group(group);
  command.add_option("--jitter", jitter, "Delay messages: j0, j1, j2, j3 or tail:p,mean_ms")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--jitter-average", jitter_average,
                  "Compute time that j1 to j3 go by: measured by each stage, or the nominal one of --emulate")
      ->capture_default_str()
      ->group(group);
  command.add_option("--seed", seed, "Seed of weights, data, dropout and delays")
      ->check(check_whole_number)
      ->capture_default_str()
      ->group(group);
}

void RunOptions::declare(CLI::App& command) {
  PipelineOptions::declare(command);
  command
      .add_option("--stall-timeout", stall_timeout_s,
                  "Seconds without progress on any stage before a run is given up")
      ->capture_default_str()
      ->group("Pipeline");
  command
      .add_option(
          "--lead", lead,
          "With --launch-ahead: hand the next task over so long before the running one ends, as in 500us "
          "(default: as soon as there is room)")
      ->group("Pipeline");
  processes.declare(command);
  profile.declare(command);
  declare_model(command, model);
  declare_output(command, output);
}

void PipelineOptions::finish(const CLI::App& command) {
  refuse_empty_values(command);
  pipeline.limit_given = LimitOptions::given(command);
  pipeline.rules = parse_rules(rules, accumulate, command.count("--accumulate") > 0);
  delays_ = host::DelayModel::parse(jitter);
  if (command.count("--emulate") > 0) durations_ = host::DurationModel::parse(emulate);
  if (launch_ahead == 0 || launch_ahead > kMostAhead)
    throw ConfigError("launch-ahead", fmt::format("must be 1 to {}", kMostAhead));
  if (jitter_average != "measured" && jitter_average != "nominal") {
    throw ConfigError("jitter-average", fmt::format("'{}' is not one of measured, nominal", jitter_average));
  }
  if (jitter_average == "nominal" && !emulated())
    throw ConfigError("jitter-average", "only emulated devices have a nominal compute time");
}

void PipelineOptions::set_limits(const CLI::App& command) {
  if (pipeline.stages > kMostStages) return;  // no such pipeline can be built
  const std::vector<std::uint32_t> chunks(std::max(pipeline.stages, 1U),
                                          std::max(pipeline.chunks_per_stage, 1U));
  pipeline.limits = limit.limits(command, chunks, pipeline.microbatches);
}

std::optional<Duration> PipelineOptions::nominal_compute() const {
  if (jitter_average == "measured") return std::nullopt;
  return (durations_->forward() + durations_->backward()) / (2 * pipeline.chunks_per_stage);
}

void RunOptions::finish(const CLI::App& command) {
  PipelineOptions::finish(command);
  world_ = processes.world();
  grid_ = processes.grid(command, pipeline.stages, world_);
  if (in_processes() && !emulated() && processes.rendezvous == "ucx")
    throw ConfigError("rendezvous", "a model's collectives meet at the store");
  if (processes.tp > 1 && processes.agreement == "first-pick" && rules != "paper") {
    throw ConfigError("agreement",
                      "under the default rules first picks can differ for ever: use --rules paper");
  }
  set_limits(command);
  if (!lead.empty()) {
    if (!emulated()) throw ConfigError("lead", "only emulated devices know when a task will end");
    if (launch_ahead < 2) throw ConfigError("lead", "needs --launch-ahead 2 or more");
    if (!output.record.empty()) throw ConfigError("lead", "a recording does not say when tasks are launched");
    lead_ = parse_duration("lead", lead);
  }
  if (!(stall_timeout_s > 0 && stall_timeout_s <= kLongestStallTimeout)) {
    throw ConfigError("stall-timeout", fmt::format("must be above 0 and at most {} s", kLongestStallTimeout));
  }
  model.encoder.check(command);
  profile.check();
  std::vector<std::string> inputs;
  if (!model.text.empty()) inputs.push_back(model.text);
  if (command.count("--config") > 0) inputs.push_back(command.get_option("--config")->as<std::string>());
  // Rank 0 writes the results.
  const auto place = process::environment_place();
  if (in_processes() && place && place->rank > 0) return;
  if (!processes.stall_report.empty()) {
    trace::check_writable("stall-report", processes.stall_report);
    inputs.push_back(processes.stall_report);
  }
  output.check(inputs);
}

host::RunSettings RunOptions::settings() const {
  host::RunSettings options;
  options.rules = pipeline.rules;
  options.depth = launch_ahead;
  options.lead = lead_;
  options.delays = delays();
  options.nominal_compute = nominal_compute();
  options.seed = seed;
  options.stall_timeout =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(stall_timeout_s));
  options.record_decisions = true;
  return options;
}

nlohmann::json PipelineOptions::to_json() const {
  nlohmann::json json = {{"stages", pipeline.stages},
                         {"chunks_per_stage", pipeline.chunks_per_stage},
                         {"microbatches", pipeline.microbatches},
                         {"limit", one_or_all(pipeline.limits)},
                         {"rules", rules},
                         {"accumulate", pipeline.rules.ordered_accumulation ? "order" : "any"},
                         {"launch_ahead", launch_ahead},
                         {"jitter", jitter},
                         {"jitter_average", jitter_average},
                         {"seed", seed}};
  if (emulated()) json["emulate"] = emulate;
  if (!limit.memory_limit.empty()) json["memory_limit"] = limit.memory_limit;
  if (!limit.activation_bytes.empty()) json["activation_bytes"] = limit.activation_bytes;
  return json;
}

nlohmann::json RunOptions::same_everywhere(nlohmann::json configuration) const {
  configuration["stall_timeout"] = stall_timeout_s;
  configuration["record"] = !output.record.empty();
  configuration["decisions"] = !output.decisions.empty();
  return configuration;
}

nlohmann::json RunOptions::to_json() const {
  nlohmann::json json = PipelineOptions::to_json();
  json["ranks"] = in_processes() ? "processes" : "threads";
  json["tp"] = processes.tp;
  json["dp"] = processes.dp;
  if (processes.tp > 1) json["agreement"] = processes.agreement;
  if (!lead.empty()) json["lead"] = lead;
  if (emulated()) return json;
  json.update({{"text", model.text},
               {"layers", model.layers},
               {"width", model.width},
               {"heads", model.heads},
               {"context", model.context},
               {"micro_batch_size", model.micro_batch_size},
               {"lr", model.learning_rate},
               {"weight_decay", model.weight_decay},
               {"clip", model.clip_norm},
               {"dropout", model.dropout},
               {"tied_embeddings", model.tied_embeddings}});
  json.update(model.encoder.to_json(model.width, model.heads));
  return json;
}

}  // namespace sluice::tools
