#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sluice/clock.hpp"
#include "sluice/executor.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/task.hpp"
#include "sluice/transport.hpp"

namespace sluice {

/// Why a task of a rank does not run.
enum class WaitFor : std::uint8_t {
  /// A message has not come.
  Message,
  /// It may not come in: the limit, or the reservation rule.
  Admission,
  /// The lane has no room, or a launched task that it follows has not ended.
  Device,
  /// Its turn: in the accumulation, in the schedule or log, or among the tasks of a stage at its limit.
  Order,
  /// The ranks of its group have not settled on it.
  Agreement,
  /// It has run, but a receiver has not taken its messages.
  Receiver,
};

[[nodiscard]] const char* to_string(WaitFor what) noexcept;

/// The other end of an edge.
struct FarEnd {
  EdgeId edge = 0;
  Direction direction = Direction::Activation;
  Chunk chunk = 0;
  StageId stage = 0;
};

/// One task, and one thing that it waits for.
struct Wait {
  Task task;
  WaitFor what = WaitFor::Message;
  /// Whose message it is, or whose to take; where the wait is for another stage.
  std::optional<FarEnd> far;
};

/// Launched tasks of one lane that have not ended.
struct Launched {
  Lane lane = Lane::Compute;
  std::uint32_t tasks = 0;
  /// The one launched last.
  Task last;
};

/// What one rank waits for: the material of a stall report.
struct Waiting {
  std::uint32_t rank = 0;
  StageId stage = 0;
  std::uint64_t iteration = 0;
  /// (chunk, microbatch) pairs that are finished, and all of the stage.
  std::uint32_t finished = 0;
  std::uint32_t pairs = 0;
  std::uint32_t in_flight = 0;
  std::uint32_t limit = 0;
  /// Forwards that the limit holds back.
  std::uint32_t held_by_limit = 0;
  /// How long nothing has happened on the rank: nothing that it waits for has come in this time. Who drives
  /// the dispatcher knows it.
  std::optional<Duration> since{};
  /// In fixed and replay mode.
  std::optional<Task> next_in_order;
  std::vector<Launched> launched;
  /// The next task of each pair that cannot run: by chunk and microbatch, one entry a missing message.
  std::vector<Wait> blocked;
  /// Tasks that have all they need, and what keeps them all the same: by chunk and microbatch.
  std::vector<Wait> ready;
};

/// A few lines for people: one for the rank, one a lane at work, and one a chunk, of its lowest microbatch.
[[nodiscard]] std::string to_string(const Waiting& waiting);

}  // namespace sluice
