#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sluice/trace/recorded_run.hpp"
#include "sluice/trace/stage_time.hpp"

namespace sluice::trace {

/// One task in two runs. A backward that is whole in one run and split in the other stands for both parts.
struct TaskDifference {
  Task task;
  std::uint64_t iteration = 0;
  StageId stage = 0;
  /// In each run: how long it took, and how long its stage had run nothing before it.
  Duration took_a{0};
  Duration took_b{0};
  Duration waited_a{0};
  Duration waited_b{0};

  /// What it adds to the time of the second run.
  [[nodiscard]] Duration difference() const noexcept { return took_b + waited_b - took_a - waited_a; }
};

/// Two runs of the same pipeline, side by side, over the iterations that both have.
struct RunDiff {
  std::vector<std::uint64_t> iterations;
  /// Those iterations, added up.
  Duration total_a{0};
  Duration total_b{0};
  /// One a stage. Each adds up to the total of its run, so the differences of the parts, averaged over the
  /// stages, add up to the difference of the totals.
  std::vector<StageTime> stages_a;
  std::vector<StageTime> stages_b;
  /// The tasks that differ most, first.
  std::vector<TaskDifference> tasks;
};

/// @param most tasks to list
/// @throws ConfigError naming `pipeline` for different chunks, stages, edges or microbatches, or `iterations`
///         if they have none in common
[[nodiscard]] RunDiff diff_runs(const RecordedRun& a, const RecordedRun& b, std::size_t most = 10);

}  // namespace sluice::trace
