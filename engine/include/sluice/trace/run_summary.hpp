#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "sluice/trace/recorded_run.hpp"
#include "sluice/trace/stage_time.hpp"

namespace sluice::trace {

/// A set of durations, in seconds; zeros for an empty one.
struct Distribution {
  std::size_t count = 0;
  double mean_s = 0;
  double p50_s = 0;
  double p95_s = 0;
  double max_s = 0;

  /// Quantiles are values of the set (nearest rank).
  [[nodiscard]] static Distribution of(std::vector<Duration> durations);
};

/// From when a task could have started to its start on the device: what the runtime adds.
struct StartOverhead {
  /// Its messages were there before the stage was free: from the end of the task before it.
  Distribution bound_by_stage;
  /// It waited for its last message: from that one's coming.
  Distribution bound_by_message;
};

/// How long a message takes by itself, where that is known.
using MessageTime = std::function<std::optional<Duration>(const MessageId&)>;

/// @param message_time where given, a message comes that long after the end of the task that sends it, and
///        what it took longer is overhead; where not, when it was recorded to be in its slot
[[nodiscard]] StartOverhead start_overhead(const RecordedRun& run, const MessageTime& message_time = {});

/// How long the messages of one edge took in one direction, over all iterations.
struct EdgeSummary {
  EdgeId edge = 0;
  Direction direction = Direction::Activation;
  /// From its being sent to its payload lying in the slot, without the wait for one.
  Distribution time;
  /// From its being offered to its having a slot.
  Distribution held;
};

/// One entry an edge and direction that had messages, without the edges inside a stage.
[[nodiscard]] std::vector<EdgeSummary> edge_summaries(const RecordedRun& run);

/// From the end of a task on the device to the rank's noticing it.
[[nodiscard]] Distribution noticing(const RecordedRun& run);

/// By stage: tasks that ran after one of the same chunk and pass with a higher microbatch.
[[nodiscard]] std::vector<std::uint64_t> reordered_tasks(const RecordedRun& run);

}  // namespace sluice::trace
