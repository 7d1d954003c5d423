#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "option/options.hpp"
#include "sluice/host/pipeline_run.hpp"
#include "sluice/host/run_settings.hpp"
#include "sluice/process/bytes.hpp"
#include "sluice/process/control_plane.hpp"
#include "sluice/process/rank_grid.hpp"

namespace sluice::gpt {
class ProcessGroups;
}

namespace sluice::tools {

/// This process among the processes of a run: its place, and its connections to the others. All of them
/// make the same calls in the same order.
class ProcessSession {
 public:
  /// Meets the other processes.
  /// @param configuration everything that must be the same on all ranks
  /// @throws ConfigError naming what differs, or what this build lacks; Error naming the ranks that did
  ///         not come
  ProcessSession(const RunOptions& options, const nlohmann::json& configuration);
  ~ProcessSession();
  ProcessSession(const ProcessSession&) = delete;
  ProcessSession& operator=(const ProcessSession&) = delete;

  /// Waits for the others: all have done their work.
  void finish();
  /// This process cannot go on: the others learn why, unless they know of a failure already. Rank 0 writes
  /// the stall report, if it was asked for.
  void fail(const std::string& cause) noexcept;

  [[nodiscard]] const process::RankGrid& grid() const noexcept;
  [[nodiscard]] process::RankPlace place() const noexcept;
  [[nodiscard]] process::ControlPlane& control() noexcept;
  /// For the model's collectives; null on emulated devices.
  [[nodiscard]] std::shared_ptr<gpt::ProcessGroups> groups() const noexcept;

  /// This process's rank of a pipeline. The session outlives it.
  /// @param settings the recorders, if any, of all stages
  [[nodiscard]] std::unique_ptr<host::PipelineRun> run(const Pipeline& pipeline, Policy policy,
                                                       host::Workload workload, host::RunSettings settings);

  /// What the first rank that knows it says, on all ranks.
  /// @throws Error if no rank knows it
  [[nodiscard]] double from_whoever_knows(std::optional<double> value);

  /// The values of the first rank of each stage, on all ranks.
  template <typename T>
  [[nodiscard]] std::vector<T> of_stages(const std::vector<T>& own) {
    process::ByteWriter writer;
    writer.put_all(std::span(own));
    std::vector<T> all;
    const std::vector<std::vector<std::byte>> gathered = control().all_gather(writer.bytes());
    for (StageId stage = 0; stage < grid().stages; ++stage) {
      const std::vector<T> theirs = process::ByteReader(gathered[grid().rank_of({stage, 0, 0})]).get_all<T>();
      all.insert(all.end(), theirs.begin(), theirs.end());
    }
    return all;
  }

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::tools
