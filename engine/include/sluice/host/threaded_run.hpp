#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sluice/clock.hpp"
#include "sluice/dispatcher.hpp"
#include "sluice/host/delay_model.hpp"
#include "sluice/host/emulated_executor.hpp"
#include "sluice/host/stage.hpp"
#include "sluice/iteration.hpp"
#include "sluice/pipeline.hpp"

namespace sluice::host {

/// What the ranks run: user code, or nothing but the passing of time.
struct Workload {
  /// User code by chunk; empty for an emulated device. Outlives the run.
  std::vector<Stage*> stages;
  /// How long the emulated device takes; unused with user code.
  TaskTime task_time;
  /// Called on each rank's thread before and after every iteration; may be empty. An exception ends
  /// the run.
  std::function<void(std::uint32_t rank, const Iteration&)> before_iteration;
  std::function<void(std::uint32_t rank, const Iteration&)> after_iteration;
  /// Called once, on the thread of the first rank that fails, so that hooks that wait can give up.
  std::function<void(const std::string& cause)> on_failure;
};

struct ThreadedRunOptions {
  std::uint32_t limit = 32;
  /// Most microbatches in flight, one entry a stage; empty for `limit` on every stage.
  std::vector<std::uint32_t> limits;
  Rules rules{};
  /// Launched tasks a rank's device holds at once, the running one included.
  std::uint32_t depth = 1;
  DelayModel delays;
  /// Compute time that the delay levels j1 to j3 go by; if not given, what each stage measures. Given,
  /// delays do not depend on how the work is ordered or split.
  std::optional<Duration> nominal_compute;
  std::uint64_t seed = 0;
  /// An iteration without progress on any rank for so long is an error.
  Duration stall_timeout = std::chrono::seconds(60);
  bool record_decisions = false;
  /// Where each stage's rank records what happens to it; empty for nowhere. They outlive the run.
  std::vector<Recorder*> recorders;

  [[nodiscard]] std::uint32_t limit_of(StageId stage) const { return limits.empty() ? limit : limits[stage]; }
};

/// One rank's share of an iteration.
struct RankReport {
  Time started{};
  /// Its last task ended and its messages were taken.
  Time ended{};
  /// The device ran tasks.
  Duration busy{};
  /// The device had nothing to run although tasks of the rank were still to come.
  Duration blocked{};
  /// Time in the dispatcher's progress() while it had something to do.
  Duration dispatching{};
  std::uint32_t tasks = 0;
  std::uint32_t peak_in_flight = 0;
  std::vector<Done> ran;
};

struct IterationReport {
  Time started{};
  Time ended{};
  std::vector<RankReport> ranks;

  [[nodiscard]] Duration duration() const noexcept { return ended - started; }
  /// Share of ranks * duration in which the devices ran nothing, in [0, 1].
  [[nodiscard]] double bubble_fraction() const;
};

/// The ranks of one pipeline as threads of this process, each with its own dispatcher.
///
/// Used from one thread. After an error the run only refuses further iterations.
class ThreadedRun {
 public:
  /// How one stage decides; called once a stage.
  using PolicyOf = std::function<Policy(StageId)>;

  /// Starts the rank threads, which wait.
  /// @throws ConfigError for what a dispatcher or a backend refuses
  ThreadedRun(const Pipeline& pipeline, const PolicyOf& policy_of, Workload workload,
              const ThreadedRunOptions& options);
  ~ThreadedRun();
  ThreadedRun(const ThreadedRun&) = delete;
  ThreadedRun& operator=(const ThreadedRun&) = delete;

  /// Runs one iteration on all ranks.
  /// @throws the first error of any rank, after all of them have stopped
  IterationReport run(const Iteration& iteration);

  /// The stage goes by another hint from the next iteration on. Only between iterations of a run by
  /// readiness.
  void rank_by(StageId stage, Hint hint);

  /// Whether a rank has failed, so that others need not go on. Safe from any thread.
  [[nodiscard]] bool failed() const noexcept;

  /// The decision log of a stage. Only between iterations.
  [[nodiscard]] DecisionLog& log(StageId stage);

 private:
  class Rank;
  struct Shared;

  std::unique_ptr<Shared> shared_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace sluice::host
