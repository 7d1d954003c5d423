#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sluice/decision.hpp"
#include "sluice/recorder.hpp"
#include "sluice/trace/recorded_run.hpp"

namespace sluice::trace {

/// Makes a recorded run from the events of its ranks, iteration by iteration.
class RunBuilder {
 public:
  /// @param run of this method, pipeline, limits and rules; holds no events yet
  explicit RunBuilder(RecordedRun run);

  /// Where the stage's rank (the first one of a group) is to record; room for one iteration.
  [[nodiscard]] Recorder& recorder(StageId stage) { return *recorders_[stage]; }
  /// All of them, by stage.
  [[nodiscard]] std::vector<Recorder*> recorders();

  /// Takes over what was recorded in the iteration that has just ended on all ranks.
  /// @param decisions those of each stage in this iteration; empty if they were not kept
  void keep(const Iteration& iteration, std::span<const std::span<const Decision>> decisions);
  /// Forgets what was recorded since the last call.
  void drop();

  /// The run so far. A message whose receiver's half was lost is left out.
  [[nodiscard]] RecordedRun run() const;

 private:
  class Reading;

  RecordedRun run_;
  std::vector<std::unique_ptr<Recorder>> recorders_;
  /// Messages not yet complete: those of an iteration that a receiver has not begun.
  std::map<MessageId, RecordedMessage> open_;
  /// The clock at the start of the first iteration.
  std::optional<Time> zero_;
};

}  // namespace sluice::trace
