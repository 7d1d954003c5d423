#pragma once

#include <memory>
#include <optional>
#include <string>

#include "option/options.hpp"
#include "sluice/host/threaded_run.hpp"
#include "sluice/iteration.hpp"
#include "sluice/pipeline.hpp"

namespace sluice::tools {

class ProcessSession;

/// The GPT of a run, cut for one pipeline: user code of its stages and the ends of its steps.
class GptWorkload {
 public:
  /// @param session where the ranks are processes: only this one's stage is built; else null
  /// @throws ConfigError naming the field; `emulate` where the build has no LibTorch
  GptWorkload(const RunOptions& options, const Pipeline& pipeline, ProcessSession* session);
  ~GptWorkload();
  GptWorkload(const GptWorkload&) = delete;
  GptWorkload& operator=(const GptWorkload&) = delete;

  /// What the ranks run. The workload outlives the run.
  [[nodiscard]] host::Workload workload();
  /// Mean loss of the last iteration. All processes ask, and all are told.
  [[nodiscard]] double loss() const;
  /// As `loss`.
  [[nodiscard]] std::string parameters_sha256() const;
  /// How long this process has added up gradients with other replicas, and how much of it the end of a step
  /// had to wait for; nothing where stages are threads.
  struct Reduction {
    Duration busy{0};
    Duration exposed{0};
  };
  [[nodiscard]] std::optional<Reduction> reduction() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// The same model without a pipeline: the microbatches one by one, in this thread.
class UnpipelinedGpt {
 public:
  /// @throws as GptWorkload
  explicit UnpipelinedGpt(const RunOptions& options);
  ~UnpipelinedGpt();
  UnpipelinedGpt(const UnpipelinedGpt&) = delete;
  UnpipelinedGpt& operator=(const UnpipelinedGpt&) = delete;

  /// @return mean loss
  double run(IterationKind kind);
  [[nodiscard]] std::string parameters_sha256() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::tools
