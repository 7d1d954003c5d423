#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sluice/task.hpp"

namespace sluice::trace {

/// One task that ran. Times are seconds of any one clock, the same for the whole run.
struct TaskSpan {
  Task task;
  std::uint64_t iteration = 0;
  std::uint32_t stage = 0;
  /// For a backward: the weight gradient was part of it.
  bool whole = false;
  double start_s = 0;
  double end_s = 0;

  friend bool operator==(const TaskSpan&, const TaskSpan&) = default;
};

/// Everything that ran under one method, in any order.
struct MethodTimeline {
  std::string name;
  std::uint32_t stages = 0;
  std::vector<TaskSpan> spans;
};

/// One iteration of a timeline as a whole.
struct IterationSummary {
  std::uint64_t iteration = 0;
  /// Start of its first task.
  double start_s = 0;
  /// From there to the end of its last task.
  double makespan_s = 0;
  /// Share of stages * makespan in which a stage ran none of the iteration's tasks, in [0, 1].
  double bubble_share = 0;
};

/// The timeline's iterations, ascending.
/// @throws Error if a span's stage is not below `stages`, a time is not finite or a span ends
///         before it starts
[[nodiscard]] std::vector<IterationSummary> summarize(const MethodTimeline& timeline);

/// What a task does, for people: `forward`, `backward`, `input gradient` or `weight gradient`.
[[nodiscard]] std::string describe(Pass pass, bool whole);

}  // namespace sluice::trace
