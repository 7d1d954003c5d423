#pragma once

#include <map>
#include <utility>
#include <vector>

#include "sluice/trace/recorded_run.hpp"

namespace sluice::trace {

/// Where the time of one stage went, over all recorded iterations. The parts add up to the iterations'
/// durations.
///
/// While a stage ran nothing, the time goes to the first of these that holds: its ranks were agreeing on a
/// task; the next task, or another one that the rank had yet to notice it was free for, was ready and being
/// started; another task was ready, but was not next in the order; a forward was there that the limit kept
/// out; the next task waited for a message.
struct StageTime {
  Duration compute{0};
  /// Waiting for a message, by edge and direction.
  std::map<std::pair<EdgeId, Direction>, Duration> messages{};
  Duration limit{0};
  Duration order{0};
  Duration agreement{0};
  Duration start{0};
  /// After the stage's last task of an iteration.
  Duration idle{0};

  [[nodiscard]] Duration waiting_for_messages() const;
  [[nodiscard]] Duration total() const;
};

/// One a stage.
[[nodiscard]] std::vector<StageTime> stage_times(const RecordedRun& run);

}  // namespace sluice::trace
