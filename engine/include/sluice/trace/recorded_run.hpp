#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/clock.hpp"
#include "sluice/decision.hpp"
#include "sluice/iteration.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/rules.hpp"
#include "sluice/task.hpp"
#include "sluice/transport.hpp"

namespace sluice::trace {

/// Launched tasks a device of a recorded run may have held at once.
inline constexpr std::uint32_t kMostLaunchAhead = 64;

/// When one iteration ran, on all ranks.
struct RecordedIteration {
  Iteration iteration;
  Time start{};
  /// The last rank was done with it.
  Time end{};

  friend bool operator==(const RecordedIteration& a, const RecordedIteration& b) {
    return a.iteration.index == b.iteration.index && a.iteration.kind == b.iteration.kind &&
           a.start == b.start && a.end == b.end;
  }
};

/// One task's run on its stage's device. Its times rise from one to the next.
struct RecordedTask {
  Task task;
  std::uint64_t iteration = 0;
  StageId stage = 0;
  /// For a backward: the weight gradient was part of it.
  bool whole = false;
  Slot slot = kNoSlot;
  /// On the device.
  Time start{};
  Time end{};
  /// The rank noticed that it had ended.
  Time noticed{};

  [[nodiscard]] Duration duration() const noexcept { return end - start; }
  friend bool operator==(const RecordedTask&, const RecordedTask&) = default;
};

/// The times of a message rise from one to the next.
struct RecordedMessage {
  MessageId id;
  Time sent{};
  /// The receiver noticed the offer.
  Time offered{};
  /// It had a slot for it.
  Time accepted{};
  Time arrived{};

  friend bool operator==(const RecordedMessage&, const RecordedMessage&) = default;
};

/// A wait of a stage's ranks for their decision on the next task.
struct RecordedAgreement {
  std::uint64_t iteration = 0;
  StageId stage = 0;
  Time asked{};
  Time decided{};

  friend bool operator==(const RecordedAgreement&, const RecordedAgreement&) = default;
};

/// What happened in the iterations of one pipeline under one method. Times are nanoseconds since the start
/// of the first iteration, of one clock for all stages.
struct RecordedRun {
  std::string method;
  Pipeline pipeline;
  /// One a stage.
  std::vector<std::uint32_t> limits;
  Rules rules{};
  /// Launched tasks a device held at once, the running one included; at most kMostLaunchAhead.
  std::uint32_t launch_ahead = 1;
  /// Events that the recorders could not keep: parts of the run are missing.
  std::uint64_t lost = 0;

  std::vector<RecordedIteration> iterations{};
  std::vector<RecordedTask> tasks{};
  std::vector<RecordedMessage> messages{};
  std::vector<RecordedAgreement> agreements{};
  /// In order, one log a stage.
  std::vector<std::vector<Decision>> decisions{};
};

/// The contents of a file of recorded runs.
struct Recording {
  /// A JSON object, as the tool that made the recording describes what ran.
  std::string settings = "{}";
  std::vector<RecordedRun> runs;
};

/// The stage that sends the message.
[[nodiscard]] StageId sender(const Pipeline& pipeline, const MessageId& id);
/// The stage that receives the message.
[[nodiscard]] StageId receiver(const Pipeline& pipeline, const MessageId& id);

/// `activations 1 -> 2` or `gradients 2 -> 1`, with the chunks at its ends.
[[nodiscard]] std::string edge_name(const Pipeline& pipeline, EdgeId edge, Direction direction);

/// Makes sure that every iteration of a run is all there: each task that its kind needs, and each message
/// between them.
/// @throws ConfigError naming `tasks` or `messages` and what is missing first
void check_complete(const RecordedRun& run);

/// The run of this method; with an empty name the first one.
/// @throws ConfigError naming `method` and what there is
[[nodiscard]] const RecordedRun& find_run(const Recording& recording, std::string_view method);

}  // namespace sluice::trace
