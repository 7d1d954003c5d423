#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "sluice/host/pipeline_run.hpp"
#include "sluice/host/run_settings.hpp"

namespace sluice::host {

/// The ranks of one pipeline as threads of this process, each with its own dispatcher.
///
/// Used from one thread. After an error the run only refuses further iterations.
class ThreadedRun final : public PipelineRun {
 public:
  /// How one stage decides; called once a stage.
  using PolicyOf = std::function<Policy(StageId)>;

  /// Starts the rank threads, which wait.
  /// @throws ConfigError for what a dispatcher or a backend refuses
  ThreadedRun(const Pipeline& pipeline, const PolicyOf& policy_of, Workload workload,
              const RunSettings& options);
  ~ThreadedRun() override;
  ThreadedRun(const ThreadedRun&) = delete;
  ThreadedRun& operator=(const ThreadedRun&) = delete;

  IterationReport run(const Iteration& iteration) override;
  void rank_by(StageId stage, Hint hint) override;

  /// Whether a rank has failed, so that others need not go on. Safe from any thread.
  [[nodiscard]] bool failed() const noexcept;

  [[nodiscard]] DecisionLog& log(StageId stage) override;

 private:
  class Rank;
  struct Shared;

  std::unique_ptr<Shared> shared_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace sluice::host
