#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "sluice/clock.hpp"
#include "sluice/task.hpp"

namespace sluice {

/// Index of the memory one (chunk, microbatch) owns while in flight.
using Slot = std::uint32_t;
inline constexpr Slot kNoSlot = ~Slot{0};

/// One ordered queue of a device.
enum class Lane : std::uint8_t { Compute, WeightGrad, Reduction };
inline constexpr std::size_t kLanes = 3;

/// A decided task, as handed to the device.
struct Launch {
  Task task;
  std::uint64_t iteration = 0;
  Slot slot = kNoSlot;
  Lane lane = Lane::Compute;
  /// For a backward: it also accumulates the weight gradients, and no WeightGrad task follows.
  bool whole = false;
  /// The iteration keeps nothing for a backward.
  bool forward_only = false;
};

enum class Status : std::uint8_t { Ok, Failed };

/// A task the device has finished.
struct Done {
  Task task;
  Slot slot = kNoSlot;
  Time started{};
  Time ended{};
  Status status = Status::Ok;
  /// As launched.
  bool whole = false;
};

/// Runs launched tasks, one at a time and in launch order within a lane. No call blocks.
///
/// Only the rank's own thread calls an executor.
class Executor {
 public:
  virtual ~Executor() = default;

  /// How many more tasks the lane takes now; 0 means full. Launch-ahead depth and lead live here.
  [[nodiscard]] virtual std::uint32_t room(Lane lane) const = 0;

  /// Takes one task. Precondition: `room(launch.lane) > 0`.
  virtual void launch(const Launch& launch) = 0;

  /// Fetches one finished task; false when there is none.
  virtual bool poll(Done& done) = 0;

  /// When a poll may next find something although nobody notifies; `kNever` if that cannot be, `kAnyTime` if
  /// the moment is not known.
  [[nodiscard]] virtual Time next_deadline() const = 0;

  /// The cause of the last `Done` with `Status::Failed`.
  [[nodiscard]] virtual std::string failure() const { return "task failed"; }
};

}  // namespace sluice
