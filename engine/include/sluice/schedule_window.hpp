#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sluice/stage_tasks.hpp"

namespace sluice {

/// Admission under a fixed order of forwards: the i-th forward may come in once at most `slots - 1`
/// of those before it are still in flight, that is when `i < released + slots`.
///
/// With as many slots as the order's peak in flight, the forward the order wants next always fits;
/// more slots let inputs be fetched ahead.
class ScheduleWindow {
 public:
  ScheduleWindow(const StageTasks& tasks, std::uint32_t slots);

  /// @param order the stage's tasks in the order they will run
  void begin(const StageTasks& tasks, std::span<const Task> order) noexcept;

  [[nodiscard]] bool admits(std::uint32_t index) const noexcept { return place_[index] < released_ + slots_; }
  void released() noexcept { ++released_; }

  /// The forward that the last release let in; nothing if the order has no more.
  [[nodiscard]] bool opened(std::uint32_t& index) const noexcept {
    const std::uint32_t place = released_ + slots_ - 1;
    if (place >= forwards_.size()) return false;
    index = forwards_[place];
    return true;
  }

 private:
  std::uint32_t slots_;
  std::uint32_t released_ = 0;
  std::vector<std::uint32_t> place_;
  std::vector<std::uint32_t> forwards_;
};

}  // namespace sluice
