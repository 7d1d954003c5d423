#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sluice/agreement.hpp"
#include "sluice/host/pipeline_run.hpp"
#include "sluice/host/rank_runner.hpp"
#include "sluice/host/run_settings.hpp"
#include "sluice/host/slot_buffers.hpp"
#include "sluice/process/control_plane.hpp"
#include "sluice/process/rank_grid.hpp"

namespace sluice::process {

/// What this process's rank works with. All of it outlives the run.
struct ProcessParts {
  RankGrid grid;
  ControlPlane& control;
  host::SlotBuffers& buffers;
  Transport& transport;
  Agreement& agreement;
  Wake& wake;
};

/// One rank of a pipeline whose ranks are processes, driven by the calling thread. After each iteration
/// the ranks exchange what they measured, decided and recorded, so that each process knows all of it.
///
/// What is known of a stage is what the first rank of its first replica saw.
class ProcessRun final : public host::PipelineRun {
 public:
  /// @param policy of this rank's stage
  /// @param settings the recorders, if any, of all stages: those of others are filled after each iteration
  /// @throws ConfigError for what a dispatcher or a backend refuses
  ProcessRun(const Pipeline& pipeline, Policy policy, host::Workload workload, host::RunSettings settings,
             const ProcessParts& parts);
  ~ProcessRun() override;
  ProcessRun(const ProcessRun&) = delete;
  ProcessRun& operator=(const ProcessRun&) = delete;

  /// Runs this rank's share of the iteration, and waits for the others.
  /// @throws this rank's error; Aborted, naming the rank at fault and what waited for it, or StallError
  host::IterationReport run(const Iteration& iteration) override;
  void rank_by(StageId stage, Hint hint) override;
  [[nodiscard]] DecisionLog& log(StageId stage) override;
  [[nodiscard]] std::vector<AgreementStatistics> agreements() const override { return agreements_; }
  /// This rank's, for an embedder whose own thread drives it in turns with the one that is inside of `run`.
  [[nodiscard]] Dispatcher& dispatcher() noexcept { return runner_->dispatcher(); }

 private:
  class Watch;

  [[nodiscard]] host::RankReport run_own(const Iteration& iteration);
  void settle(const std::string& cause);
  [[noreturn]] void leave();
  [[nodiscard]] host::IterationReport exchange(host::RankReport own);

  const Pipeline pipeline_;
  const host::Workload workload_;
  const host::RunSettings settings_;
  ProcessParts parts_;
  StageId stage_;
  std::unique_ptr<Watch> watch_;
  std::unique_ptr<host::RankRunner> runner_;
  /// Of the other stages.
  std::vector<DecisionLog> logs_;
  /// Of all ranks.
  std::vector<AgreementStatistics> agreements_;
};

}  // namespace sluice::process
