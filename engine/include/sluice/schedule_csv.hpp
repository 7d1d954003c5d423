#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/pipeline.hpp"
#include "sluice/schedule.hpp"

namespace sluice {

/// A schedule read from a file, with the pipeline that the file implies.
struct ScheduleFile {
  Schedule schedule;
  /// The stage of each chunk.
  std::vector<StageId> placement;
  Microbatch microbatches = 0;
  /// For each stage and position of its order: the column of the cell, from 1.
  std::vector<std::vector<std::uint32_t>> columns;

  [[nodiscard]] std::uint32_t chunks() const noexcept { return static_cast<std::uint32_t>(placement.size()); }
  /// A chain of the chunks, which can all be split.
  [[nodiscard]] Pipeline pipeline() const;
};

/// Reads the CSV notation of torch.distributed.pipelining, as of PyTorch 2.13.
///
/// A line is a rank, and becomes a stage. A cell is one action, or empty: a bubble. An action is
/// `<stage><type><microbatch>`, and a file's stage is a chunk here. Types: `F` forward, `B` whole
/// backward, `I` input gradient and `W` weight gradient. `(0F3;1B2)OVERLAP_F_B` overlaps its parts, which
/// here run in the order written, since a stage runs one task at a time. Communication and sharding
/// (`SEND_F`, `RECV_F`, `SEND_B`, `RECV_B`, `UNSHARD`, `RESHARD`, `REDUCE_GRAD`) are left out: the
/// transport and the stages do that by themselves. An empty line is a rank without actions, unless it
/// ends the file.
///
/// What is read is not yet known to be executable: see `Schedule::validate`. Memory is linear in the
/// text, whatever numbers it holds.
/// @param name of the schedule
/// @throws ConfigError for `schedule`, naming line and column, where the text is not in this notation, a
///         chunk is on two ranks or on none, an `I` and a `W` are without the other, a `W` belongs to a
///         `B`, or there are too few actions for the numbers that occur
[[nodiscard]] ScheduleFile parse_schedule_csv(std::string_view text, std::string name);

/// Writes a schedule in that notation, a backward as `B` or `I`; no bubbles and no communication.
[[nodiscard]] std::string to_csv(const Schedule& schedule);

}  // namespace sluice
