#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "method/method.hpp"
#include "option/options.hpp"
#include "run/gpt_workload.hpp"
#include "run/run_statistics.hpp"
#include "sluice/adapt/auto_hint.hpp"
#include "sluice/host/threaded_run.hpp"
#include "sluice/trace/run_builder.hpp"
#include "sluice/trace/run_summary.hpp"

namespace sluice::tools {

/// One method at work: its ranks, what they run, and what was measured.
class MethodRun {
 public:
  /// @throws ConfigError naming the field
  MethodRun(const RunOptions& options, const Method& method);

  /// Runs an iteration and measures it.
  /// @param measure false for a warm-up or an evaluation: the statistics stay as they are
  void run(const Iteration& iteration, bool measure = true);

  [[nodiscard]] const std::string& name() const noexcept { return method_.name(); }
  [[nodiscard]] const Method& method() const noexcept { return method_; }
  [[nodiscard]] const RunStatistics& statistics() const noexcept { return statistics_; }
  /// Mean loss of the last iteration; nothing on emulated devices.
  [[nodiscard]] std::optional<double> loss() const;
  /// Nothing on emulated devices.
  [[nodiscard]] std::optional<std::string> parameters_sha256() const;
  /// The decisions of every stage in the measured iterations, if they were asked for.
  [[nodiscard]] const nlohmann::json& decisions() const noexcept { return decisions_; }
  /// The measured iterations as recorded, if that was asked for.
  [[nodiscard]] std::optional<trace::RecordedRun> recorded() const;
  /// What the runtime added to the emulated devices and delays; nothing where these are not known.
  [[nodiscard]] std::optional<sim::Overhead> overhead() const;

 private:
  host::Workload make_workload(const RunOptions& options);
  void keep_decisions();
  void adapt();

  /// Measures and ranks anew between iterations.
  struct Adaptation {
    std::vector<Recorder> own;
    std::vector<Recorder*> recorders;
    adapt::Measurements measured;
    adapt::AutoHint hint;
  };

  Method method_;
  bool keep_decisions_;
  bool keep_recording_;
  /// How late a message of the run is meant to be, where that follows from its name alone.
  trace::MessageTime message_time_;
  std::unique_ptr<GptWorkload> model_;
  RunStatistics statistics_;
  nlohmann::json decisions_;
  std::unique_ptr<trace::RunBuilder> builder_;
  /// Only of a method that adapts.
  std::unique_ptr<Adaptation> adaptation_;
  std::unique_ptr<host::ThreadedRun> run_;
};

}  // namespace sluice::tools
