#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "sluice/executor.hpp"
#include "sluice/host/delay_model.hpp"
#include "sluice/host/emulated_executor.hpp"
#include "sluice/sim/timetable.hpp"

namespace sluice::sim {

using host::TaskTime;

/// The devices of one group in virtual time, in lockstep: a task holds collectives, so it starts when
/// its last rank has launched it and ends on all ranks at once. A group of one is a device of its own.
class SimDevice {
 public:
  /// @param first_rank number of the group's first rank in the timetable; the others follow
  /// @param depth launched tasks a lane holds at once, the running one included
  /// @param notice how long after its end a task is seen to have ended
  /// @throws ConfigError naming `launch-ahead` if depth is 0
  SimDevice(std::uint32_t first_rank, std::uint32_t members, const Clock& clock, Timetable& timetable,
            TaskTime task_time, std::uint32_t depth, Duration notice);

  [[nodiscard]] std::uint32_t room(std::uint32_t member, Lane lane) const;
  /// @throws ProtocolError if the ranks launch different tasks: their collectives would never meet
  void launch(std::uint32_t member, const Launch& launch);
  bool poll(std::uint32_t member, Done& done);
  [[nodiscard]] Time next_deadline(std::uint32_t member) const;

  /// Forgets what has run. Precondition: no lane holds a task.
  void begin() noexcept { busy_ = Duration{0}; }
  /// How long tasks have run since `begin`, lanes added up.
  [[nodiscard]] Duration busy() const noexcept { return busy_; }
  /// When everything launched so far will have run.
  [[nodiscard]] Time free_from() const noexcept;

 private:
  struct Queue {
    std::uint64_t launched = 0;
    std::uint64_t polled = 0;
    /// A ring by launch number; entries below `LaneState::started` are known.
    std::vector<Done> dones;
  };
  struct LaneState {
    /// Tasks that every member has launched.
    std::uint64_t started = 0;
    Time end{0};
    std::vector<Launch> launches;
    std::vector<Queue> members;
  };

  [[nodiscard]] LaneState& state(Lane lane) { return lanes_[static_cast<std::size_t>(lane)]; }
  [[nodiscard]] const LaneState& state(Lane lane) const { return lanes_[static_cast<std::size_t>(lane)]; }
  void start(LaneState& lane);

  std::uint32_t first_rank_;
  const Clock& clock_;
  Timetable& timetable_;
  TaskTime task_time_;
  std::uint32_t depth_;
  Duration notice_;
  Duration busy_{0};
  std::array<LaneState, kLanes> lanes_;
};

/// One rank's view of its device.
class SimExecutor final : public Executor {
 public:
  /// @param device outlives the executor
  SimExecutor(SimDevice& device, std::uint32_t member) : device_(&device), member_(member) {}
  /// With a device of its own.
  /// @throws ConfigError naming `launch-ahead` if depth is 0
  SimExecutor(std::uint32_t rank, const Clock& clock, Timetable& timetable, TaskTime task_time,
              std::uint32_t depth = 1);

  [[nodiscard]] std::uint32_t room(Lane lane) const override { return device_->room(member_, lane); }
  void launch(const Launch& launch) override { device_->launch(member_, launch); }
  bool poll(Done& done) override;
  [[nodiscard]] Time next_deadline() const override { return device_->next_deadline(member_); }

  [[nodiscard]] const host::ComputeAverage& compute_average() const noexcept { return average_; }
  /// Where everything that ends is kept from now on; null keeps nothing.
  void keep(std::vector<Done>* ran) noexcept { ran_ = ran; }

 private:
  std::unique_ptr<SimDevice> own_;
  SimDevice* device_;
  std::uint32_t member_;
  host::ComputeAverage average_;
  std::vector<Done>* ran_ = nullptr;
};

}  // namespace sluice::sim
