#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "method.hpp"
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
  std::string text;
  /// The text must be long enough to hold a part of it out.
  bool evaluates = false;
};

struct OutputOptions {
  std::string json;
  std::string timeline;
  std::string trace;
  std::string decisions;

  /// The options that were given, with their paths.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> given() const;
  /// @param inputs files that the run reads
  /// @throws ConfigError naming the first option whose path cannot be written, or is that of another
  ///         output or of an input
  void check(const std::vector<std::string>& inputs) const;
};

/// For options of 64 bits: refuses a sign and what does not fit, which CLI11 would wrap around.
[[nodiscard]] std::string check_whole_number(const std::string& text);

/// What `train` and `compare` have in common.
struct RunOptions {
  PipelineSettings pipeline;
  ModelOptions model;
  OutputOptions output;
  std::string emulate;
  std::string jitter = "j0";
  std::string rules = "default";
  std::string accumulate = "order";
  std::uint64_t seed = 1;
  std::uint32_t launch_ahead = 1;
  double stall_timeout_s = 60;

  /// Declares the options on a subcommand.
  void declare(CLI::App& command);
  /// Applies what follows from several options. Call once after parsing.
  /// @throws ConfigError naming the field
  void finish(const CLI::App& command);

  [[nodiscard]] bool emulated() const noexcept { return !emulate.empty(); }
  [[nodiscard]] const host::DurationModel& durations() const { return *durations_; }
  [[nodiscard]] host::ThreadedRunOptions threaded() const;
  /// Every setting, as the results record it.
  [[nodiscard]] nlohmann::json to_json() const;

 private:
  host::DelayModel delays_;
  std::optional<host::DurationModel> durations_;
};

}  // namespace sluice::tools
