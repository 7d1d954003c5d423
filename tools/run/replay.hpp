#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sluice/trace/recorded_run.hpp"

namespace sluice::tools {

enum class ReplayOn : std::uint8_t {
  /// Threads and emulated devices, in real time. Messages take no longer than the transport does.
  Runtime,
  /// Virtual time, with the recorded message times.
  Simulator,
};

/// A decision log that was executed again, in exactly its order.
struct Replayed {
  std::size_t decisions = 0;
  /// By recorded iteration.
  std::vector<double> iteration_seconds;
};

/// Makes sure that the run's decision log can be executed: nothing of it was lost, every iteration runs each
/// task once, on its stage, no stage waits for ever, and the microbatches in flight fit the limit and the
/// slots.
/// @throws ConfigError naming `replay`, and stage or rank and position of the first mismatch
void check_replayable(const trace::RecordedRun& run);

/// Executes the decision log on devices that take as long as they did, and makes sure that what ran is what
/// the log says.
/// @param run complete
/// @param on_iteration called after each, with the number of those done
/// @throws as check_replayable; Error naming stage and decision if something else ran
[[nodiscard]] Replayed replay(const trace::RecordedRun& run, ReplayOn on,
                              const std::function<void(std::size_t)>& on_iteration = {});

}  // namespace sluice::tools
