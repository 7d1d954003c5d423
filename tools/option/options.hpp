#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "method/method.hpp"
#include "option/encoder_options.hpp"
#include "option/limits.hpp"
#include "option/process_options.hpp"
#include "option/profile_options.hpp"
#include "sluice/host/delay_model.hpp"
#include "sluice/host/duration_model.hpp"
#include "sluice/host/threaded_run.hpp"

namespace CLI {
class App;
}

namespace sluice::tools {

/// Size and training of the model, as the command line gives them.
struct ModelOptions {
  std::uint32_t layers = 4;
  std::uint32_t width = 64;
  std::uint32_t heads = 4;
  std::uint32_t context = 64;
  std::uint32_t micro_batch_size = 4;
  double learning_rate = 3e-3;
  double weight_decay = 0.1;
  double clip_norm = 1.0;
  double dropout = 0.0;
  bool tied_embeddings = false;
  EncoderOptions encoder;
  std::string text;
  /// The text must be long enough to hold a part of it out.
  bool evaluates = false;
};

struct OutputOptions {
  std::string json;
  std::string timeline;
  std::string trace;
  std::string decisions;
  std::string record;

  /// The options that were given, with their paths.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> given() const;
  /// @param inputs files that the run reads
  /// @throws ConfigError naming the first option whose path cannot be written, or is that of another
  ///         output or of an input
  void check(const std::vector<std::string>& inputs) const;
};

/// An empty value is a variable of a script that was never set.
/// @throws ConfigError naming the option
void refuse_empty_values(const CLI::App& command);

/// For options of 64 bits: refuses a sign and what does not fit, which CLI11 would wrap around.
[[nodiscard]] std::string check_whole_number(const std::string& text);

/// The rules that `--rules` and `--accumulate` ask for.
/// @throws ConfigError naming the one of them at fault
[[nodiscard]] Rules parse_rules(const std::string& rules, const std::string& accumulate,
                                bool accumulate_given);

/// What `train`, `compare` and `simulate` have in common.
struct PipelineOptions {
  PipelineSettings pipeline;
  LimitOptions limit;
  std::string emulate;
  std::string jitter = "j0";
  std::string jitter_average = "measured";
  std::string rules = "default";
  std::string accumulate = "order";
  std::uint64_t seed = 1;
  std::uint32_t launch_ahead = 1;

  /// Declares the options on a subcommand.
  void declare(CLI::App& command);
  /// Applies what follows from several options. Call once after parsing.
  /// @throws ConfigError naming the field
  void finish(const CLI::App& command);
  /// Applies the limits to the pipeline that the options describe, after `finish`.
  /// @throws ConfigError naming the field
  void set_limits(const CLI::App& command);

  [[nodiscard]] bool emulated() const noexcept { return !emulate.empty(); }
  [[nodiscard]] const host::DurationModel& durations() const { return *durations_; }
  [[nodiscard]] const host::DelayModel& delays() const noexcept { return delays_; }
  /// Compute time that jitter goes by, unless that is what the stages measure.
  [[nodiscard]] std::optional<Duration> nominal_compute() const;
  /// Every setting, as the results record it.
  [[nodiscard]] nlohmann::json to_json() const;

 private:
  host::DelayModel delays_;
  std::optional<host::DurationModel> durations_;
};

/// What `train` and `compare` have in common.
struct RunOptions : PipelineOptions {
  ProcessOptions processes;
  ProfileOptions profile;
  ModelOptions model;
  OutputOptions output;
  double stall_timeout_s = 60;
  /// How long before the end of the running task the next one is launched; empty for any time.
  std::string lead;

  /// Declares the options on a subcommand.
  void declare(CLI::App& command);
  /// Applies what follows from several options. Call once after parsing.
  /// @throws ConfigError naming the field
  void finish(const CLI::App& command);

  /// The ranks of the run. Those of threads are one a stage.
  [[nodiscard]] const process::RankGrid& grid() const noexcept { return grid_; }
  /// The ranks are processes, of which this is one, or which are still to be started.
  [[nodiscard]] bool in_processes() const noexcept { return world_ > 0; }
  [[nodiscard]] host::RunSettings settings() const;
  /// What must be the same in all processes: the configuration, and what the results need not record.
  [[nodiscard]] nlohmann::json same_everywhere(nlohmann::json configuration) const;
  /// Every setting, as the results record it.
  [[nodiscard]] nlohmann::json to_json() const;

 private:
  Duration lead_ = host::EmulatedExecutor::kAnyLead;
  process::RankGrid grid_;
  std::uint32_t world_ = 0;
};

/// Declares where results go.
void declare_output(CLI::App& command, OutputOptions& output);

}  // namespace sluice::tools
