#pragma once

#include <cstdint>
#include <vector>

#include "sluice/clock.hpp"
#include "sluice/executor.hpp"

namespace sluice::host {

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

/// All ranks in one iteration.
struct IterationReport {
  IterationReport() = default;
  /// From the first start to the last end.
  /// @param reports at least one
  explicit IterationReport(std::vector<RankReport> reports);

  Time started{};
  Time ended{};
  std::vector<RankReport> ranks;

  [[nodiscard]] Duration duration() const noexcept { return ended - started; }
  /// Share of ranks * duration in which the devices ran nothing, in [0, 1].
  [[nodiscard]] double bubble_fraction() const;
};

}  // namespace sluice::host
