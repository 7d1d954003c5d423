#pragma once

#include <vector>

#include "sluice/agreement.hpp"
#include "sluice/decision.hpp"
#include "sluice/hint.hpp"
#include "sluice/host/iteration_report.hpp"
#include "sluice/iteration.hpp"
#include "sluice/pipeline.hpp"

namespace sluice::host {

/// A pipeline at work, wherever its ranks are.
///
/// Used from one thread. After an error a run only refuses further iterations.
class PipelineRun {
 public:
  virtual ~PipelineRun() = default;

  /// Runs one iteration on all ranks.
  /// @throws the first error of any rank, after all of them have stopped
  virtual IterationReport run(const Iteration& iteration) = 0;

  /// The stage goes by another hint from the next iteration on. Only between iterations of a run by
  /// readiness.
  virtual void rank_by(StageId stage, Hint hint) = 0;

  /// The decision log of a stage. Only between iterations.
  [[nodiscard]] virtual DecisionLog& log(StageId stage) = 0;

  /// How each rank has agreed with those that share its stage, over all iterations; empty where every
  /// stage has one rank.
  [[nodiscard]] virtual std::vector<AgreementStatistics> agreements() const { return {}; }
};

}  // namespace sluice::host
