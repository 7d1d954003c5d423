#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sluice/host/duration_model.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/schedule.hpp"
#include "sluice/trace/timeline.hpp"

namespace sluice::tools {

/// Sizes that the command line gives; a file, or a schedule with a placement of its own, may give them too.
struct ScheduleSizes {
  std::optional<std::uint32_t> stages;
  std::optional<std::uint32_t> chunks_per_stage;
  std::optional<std::uint32_t> microbatches;
};

/// A schedule and the pipeline it is for.
struct LoadedSchedule {
  Schedule schedule;
  Pipeline pipeline;
  /// Where it was read from a file: the column of each stage and position.
  std::vector<std::vector<std::uint32_t>> columns;
};

/// @param source a schedule's name, or a file in PyTorch's CSV notation
/// @throws ConfigError naming `schedule` or the size that does not fit
[[nodiscard]] LoadedSchedule load_schedule(const std::string& source, const ScheduleSizes& sizes);

/// One stage of a schedule that was run.
struct ScheduledStage {
  std::uint32_t peak_in_flight = 0;
  std::size_t tasks = 0;
  Duration busy{0};
};

/// A schedule run in virtual time, as it stands: weight gradients are added up in its order.
struct ScheduledRun {
  std::vector<ScheduledStage> stages;
  trace::MethodTimeline timeline;
  Duration makespan{0};

  /// Share of stages * makespan without work.
  [[nodiscard]] double bubble_fraction() const;
};

/// @throws ConfigError naming `schedule` for one that is not valid
[[nodiscard]] ScheduledRun run_schedule(const LoadedSchedule& loaded, const host::DurationModel& times);

/// The run on a grid, a line a rank and a column a unit of time; nothing if that is wider than `width`.
[[nodiscard]] std::string draw_grid(const ScheduledRun& run, std::size_t width);

}  // namespace sluice::tools
