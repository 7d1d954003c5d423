#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "command/commands.hpp"
#include "method/method.hpp"
#include "option/options.hpp"
#include "option/toml_config.hpp"
#include "report/progress_bar.hpp"
#include "report/results.hpp"
#include "run/gpt_workload.hpp"
#include "run/image_sizes.hpp"
#include "run/method_run.hpp"
#include "run/process_session.hpp"
#include "run/profiling.hpp"
#include "run/spawn.hpp"
#include "sluice/error.hpp"

namespace sluice::tools {
namespace {

struct TrainOptions {
  RunOptions run;
  std::uint64_t steps = 20;
  std::uint64_t eval_every = 0;
  std::string hint = "bf";
  std::string schedule;
  bool no_pipeline = false;
  std::string config;
};

/// What trains: a pipeline under some method, or the model without one.
class Trainer {
 public:
  Trainer(const TrainOptions& options, ProcessSession* session)
      : profiling_(options.run.profile), statistics_("no-pipeline", 1) {
    if (options.no_pipeline) {
      // What no pipeline uses is checked all the same.
      [[maybe_unused]] const Method unused = Method::hint(options.hint, options.run.pipeline);
      unpipelined_ = std::make_unique<UnpipelinedGpt>(options.run);
      return;
    }
    const PipelineSettings& settings = options.run.pipeline;
    const Method method = options.schedule.empty() ? Method::hint(options.hint, settings)
                                                   : Method::schedule(options.schedule, settings);
    pipelined_ = std::make_unique<MethodRun>(options.run, method, profiling_, session);
  }

  void train() {
    if (pipelined_) return run_pipelined(IterationKind::Training, true);
    const auto started = std::chrono::steady_clock::now();
    loss_ = unpipelined_->run(IterationKind::Training);
    statistics_.add_unpipelined(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count());
  }

  /// @return held-out loss
  std::optional<double> evaluate() {
    if (!pipelined_) return unpipelined_->run(IterationKind::ForwardOnly);
    run_pipelined(IterationKind::ForwardOnly, false);
    return pipelined_->loss();
  }

  [[nodiscard]] std::optional<double> loss() const { return pipelined_ ? pipelined_->loss() : loss_; }
  [[nodiscard]] std::optional<std::string> sha256() const {
    return pipelined_ ? pipelined_->parameters_sha256() : unpipelined_->parameters_sha256();
  }
  [[nodiscard]] const RunStatistics& statistics() const {
    return pipelined_ ? pipelined_->statistics() : statistics_;
  }
  [[nodiscard]] std::optional<trace::RecordedRun> recorded() const {
    return pipelined_ ? pipelined_->recorded() : std::nullopt;
  }
  [[nodiscard]] std::optional<GroupStatistics> agreement() const {
    return pipelined_ ? pipelined_->agreement() : std::nullopt;
  }
  [[nodiscard]] std::optional<GptWorkload::Reduction> reduction() const {
    return pipelined_ ? pipelined_->reduction() : std::nullopt;
  }
  [[nodiscard]] nlohmann::json decisions() const {
    return pipelined_ ? pipelined_->decisions() : nlohmann::json::object();
  }

 private:
  void run_pipelined(IterationKind kind, bool measure) {
    profiling_.begins(iterations_);
    pipelined_->run({iterations_, kind}, measure);
    profiling_.ended(iterations_++);
  }

  Profiling profiling_;
  std::unique_ptr<MethodRun> pipelined_;
  std::unique_ptr<UnpipelinedGpt> unpipelined_;
  RunStatistics statistics_;
  std::uint64_t iterations_ = 0;
  std::optional<double> loss_;
};

struct Losses {
  std::vector<double> train;
  /// Step after which it was taken, and held-out loss.
  std::vector<std::pair<std::uint64_t, double>> held_out;
};

void refuse_pipeline_outputs(const OutputOptions& output) {
  for (const auto& [field, path] : output.given()) {
    if (field != "json") throw ConfigError(field, "there is no pipeline to show");
  }
}

/// Evaluations included.
std::uint64_t last_iteration_of(const TrainOptions& options) {
  const std::uint64_t evaluations = options.eval_every > 0 ? options.steps / options.eval_every : 0;
  const std::uint64_t last_step = options.steps - 1;
  return last_step + std::min(evaluations, std::numeric_limits<std::uint64_t>::max() - last_step);
}

void check(const TrainOptions& options, const CLI::App& command) {
  const auto given = command.count("--hint") + command.count("--schedule") + (options.no_pipeline ? 1U : 0U);
  if (given > 1) throw ConfigError("hint", "give only one of --hint, --schedule and --no-pipeline");
  if (options.steps == 0) throw ConfigError("steps", "must be at least 1");
  if (options.no_pipeline && options.run.emulated())
    throw ConfigError("emulate", "emulates the devices of a pipeline, there is none");
  if (options.no_pipeline) refuse_pipeline_outputs(options.run.output);
  if (options.no_pipeline && options.run.profile.used())
    throw ConfigError(options.run.profile.given(), "there is no pipeline to show");
  if (!options.no_pipeline) options.run.profile.check_within(last_iteration_of(options));
  if (options.no_pipeline && options.run.processes.world() > 0)
    throw ConfigError("no-pipeline", "there is no pipeline to divide among processes");
  if (options.eval_every > 0 && options.run.emulated())
    throw ConfigError("eval-every", "an emulated device has no loss");
}

std::string method_of(const TrainOptions& options) {
  if (options.no_pipeline) return "no-pipeline";
  return options.schedule.empty() ? options.hint : options.schedule;
}

nlohmann::json configuration(const TrainOptions& options) {
  nlohmann::json config = options.run.to_json();
  config["steps"] = options.steps;
  config["method"] = method_of(options);
  return config;
}

std::string status(const Trainer& trainer, double tokens_per_second) {
  const std::string bubble = fmt::format("bubble {:.1f}%", 100 * trainer.statistics().last_bubble_fraction());
  if (!trainer.loss())
    return fmt::format("{:.1f} ms  {}", 1e3 * trainer.statistics().iteration_seconds().back(), bubble);
  return fmt::format("loss {:.4f}  {:.0f} tokens/s  {}", *trainer.loss(), tokens_per_second, bubble);
}

/// A run that has diverged ends at once: no later step can mend it.
double finite(double loss, std::uint64_t step) {
  if (!std::isfinite(loss)) throw Error(fmt::format("the loss of step {} is not finite", step));
  return loss;
}

Losses train(Trainer& trainer, const TrainOptions& options, bool shown) {
  const RunOptions& run = options.run;
  const double tokens = static_cast<double>(run.pipeline.microbatches) * run.grid().replicas *
                        run.model.micro_batch_size * run.model.context;
  Losses losses;
  ProgressBar bar("step", options.steps, shown);
  for (std::uint64_t step = 1; step <= options.steps; ++step) {
    const auto started = std::chrono::steady_clock::now();
    trainer.train();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
    if (trainer.loss()) losses.train.push_back(finite(*trainer.loss(), step));
    std::string line = status(trainer, tokens / took.count());
    if (options.eval_every > 0 && step % options.eval_every == 0) {
      const double held_out = trainer.evaluate().value();
      losses.held_out.emplace_back(step, held_out);
      line += fmt::format("  held-out {:.4f}", held_out);
    }
    bar.show(step, line);
  }
  return losses;
}

nlohmann::json summarize(const TrainOptions& options, const Trainer& trainer, const Losses& losses) {
  const RunStatistics& statistics = trainer.statistics();
  nlohmann::json json = {{"config", configuration(options)},
                         {"losses", losses.train},
                         {"iteration_seconds", statistics.iteration_seconds()},
                         {"bubble_fraction", statistics.bubble_fraction()},
                         {"per_stage", statistics.per_stage()},
                         {"parameters_sha256", nullptr}};
  if (const auto reduction = trainer.reduction(); reduction && options.run.processes.dp > 1) {
    json["reduction"] = {{"busy_s", std::chrono::duration<double>(reduction->busy).count()},
                         {"exposed_s", std::chrono::duration<double>(reduction->exposed).count()}};
  }
  if (const auto agreement = trainer.agreement()) json["agreement"] = to_json(*agreement);
  if (const auto sha256 = trainer.sha256()) json["parameters_sha256"] = *sha256;
  if (options.run.model.encoder.used() && !options.run.emulated()) {
    json["image_patches"] = nlohmann::json::array();
    for (std::uint64_t step = 0; step < options.steps; ++step)
      json["image_patches"].push_back(image_patches(options.run, step));
  }
  if (options.eval_every > 0) {
    json["eval_losses"] = nlohmann::json::array();
    for (const auto& [step, loss] : losses.held_out)
      json["eval_losses"].push_back({{"step", step}, {"loss", loss}});
  }
  return json;
}

void report(const Trainer& trainer, const Losses& losses, const nlohmann::json& summary) {
  fmt::print("\n{}\n", trainer.statistics().table());
  fmt::print("median iteration {:.1f} ms, bubble {:.1f}%\n", 1e3 * trainer.statistics().median_seconds(),
             100 * trainer.statistics().bubble_fraction());
  if (!losses.train.empty()) fmt::print("loss {:.4f} -> {:.4f}\n", losses.train.front(), losses.train.back());
  if (!losses.held_out.empty()) fmt::print("held-out loss {:.4f}\n", losses.held_out.back().second);
  if (summary["parameters_sha256"].is_string())
    fmt::print("parameters sha256 {}\n", summary["parameters_sha256"].get<std::string>());
}

void run_train(TrainOptions& options, CLI::App& command) {
  if (!options.config.empty()) {
    const std::set<std::string> ways = {"hint", "schedule", "no-pipeline"};
    const bool chosen =
        std::any_of(ways.begin(), ways.end(), [&](const auto& way) { return command.count("--" + way) > 0; });
    apply_toml(command, options.config, chosen ? ways : std::set<std::string>{});
  }
  check(options, command);
  options.run.finish(command);
  options.run.model.evaluates = options.eval_every > 0;
  run_in_processes(
      options.run,
      [&options] {
        nlohmann::json all = options.run.same_everywhere(configuration(options));
        all["eval_every"] = options.eval_every;
        return all;
      },
      [&options](ProcessSession* session) {
        Trainer trainer(options, session);
        const bool shown = leads(session);
        const Losses losses = train(trainer, options, shown);
        Results results;
        results.summary = summarize(options, trainer, losses);
        if (!shown) return;
        results.decisions = trainer.decisions();
        results.timelines.push_back(trainer.statistics().timeline());
        if (auto recorded = trainer.recorded()) results.recorded.push_back(std::move(*recorded));
        report(trainer, losses, results.summary);
        write_results(options.run.output, results);
      });
}

}  // namespace

void add_train(CLI::App& app) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command = app.add_subcommand("train", "Train a small GPT over pipeline stages, readiness-first");
  command->add_option("--steps", options->steps, "Training steps")
      ->check(check_whole_number)
      ->capture_default_str();
  command
      ->add_option("--eval-every", options->eval_every,
                   "Evaluate on held-out text every so many steps, 0 for never")
      ->check(check_whole_number)
      ->capture_default_str();
  command
      ->add_option("--hint", options->hint,
                   "Run what is ready, ranked by bf, fb, b-priority, f-priority, bfw or pace")
      ->capture_default_str();
  command->add_option("--schedule", options->schedule,
                      "Run a fixed order instead: gpipe, 1f1b, interleaved or zb-h1");
  command->add_flag("--no-pipeline", options->no_pipeline, "Run the microbatches one by one, in one thread");
  command->add_option("--config", options->config, "Read options from a TOML file; the command line wins");
  options->run.declare(*command);
  command->footer(
      "Example: sluice train --stages 4 --microbatches 16 --steps 20 --hint bfw --timeline run.html");
  command->callback([options, command] { run_train(*options, *command); });
}

}  // namespace sluice::tools
