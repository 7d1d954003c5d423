#pragma once

#include <cstdint>
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
#include "sluice/host/pipeline_run.hpp"
#include "sluice/host/run_settings.hpp"
#include "sluice/observer.hpp"
#include "sluice/trace/run_builder.hpp"
#include "sluice/trace/run_summary.hpp"

namespace sluice::tools {

class ProcessSession;
class Profiling;

/// How the ranks of the stages agreed on what to run.
struct GroupStatistics {
  /// Of all groups together.
  std::uint64_t decisions = 0;
  std::uint64_t attempts = 0;
  std::uint64_t deferrals = 0;
  std::uint64_t picks_differed = 0;
  /// Share of the time in which a rank's device stood although its group had a task in common and no
  /// decision had come: the mean of all ranks, and the highest.
  double idle_share = 0;
  double highest_idle_share = 0;
};

[[nodiscard]] nlohmann::json to_json(const GroupStatistics& statistics);

/// One method at work: its ranks, what they run, and what was measured.
class MethodRun {
 public:
  /// @param profiling outlives the run
  /// @param session where the ranks are processes, else null; outlives the run
  /// @throws ConfigError naming the field
  MethodRun(const RunOptions& options, const Method& method, const Profiling& profiling,
            ProcessSession* session = nullptr);
  ~MethodRun();
  MethodRun(const MethodRun&) = delete;
  MethodRun& operator=(const MethodRun&) = delete;

  /// Runs an iteration and measures it.
  /// @param measure false for a warm-up or an evaluation: the statistics stay as they are
  void run(const Iteration& iteration, bool measure = true);

  [[nodiscard]] const std::string& name() const noexcept { return method_.name(); }
  [[nodiscard]] const Method& method() const noexcept { return method_; }
  [[nodiscard]] const RunStatistics& statistics() const noexcept { return statistics_; }
  /// Mean loss of the last iteration; nothing on emulated devices.
  [[nodiscard]] std::optional<double> loss() const noexcept { return loss_; }
  /// As of GptWorkload; nothing on emulated devices.
  [[nodiscard]] std::optional<GptWorkload::Reduction> reduction() const {
    return model_ ? model_->reduction() : std::nullopt;
  }
  /// Nothing on emulated devices.
  [[nodiscard]] std::optional<std::string> parameters_sha256() const;
  /// The decisions of every stage in the measured iterations, if they were asked for.
  [[nodiscard]] const nlohmann::json& decisions() const noexcept { return decisions_; }
  /// The measured iterations as recorded, if that was asked for.
  [[nodiscard]] std::optional<trace::RecordedRun> recorded() const;
  /// How the ranks of each stage agreed, in all iterations; nothing where every stage has one rank.
  [[nodiscard]] std::optional<GroupStatistics> agreement() const;
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

  [[nodiscard]] std::unique_ptr<host::PipelineRun> start(const RunOptions& options,
                                                         host::RunSettings settings);

  Method method_;
  ProcessSession* session_;
  bool keep_decisions_;
  bool keep_recording_;
  /// How late a message of the run is meant to be, where that follows from its name alone.
  trace::MessageTime message_time_;
  std::unique_ptr<GptWorkload> model_;
  std::optional<double> loss_;
  /// Of all iterations, warm-ups included.
  Duration spent_{0};
  RunStatistics statistics_;
  nlohmann::json decisions_;
  std::unique_ptr<trace::RunBuilder> builder_;
  /// Only of a method that adapts.
  std::unique_ptr<Adaptation> adaptation_;
  /// By stage; empty where nobody is told.
  std::vector<std::unique_ptr<Observer>> observers_;
  std::unique_ptr<host::PipelineRun> run_;
};

}  // namespace sluice::tools
