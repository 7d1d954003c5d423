#include "sluice/schedule_window.hpp"

namespace sluice {

ScheduleWindow::ScheduleWindow(const StageTasks& tasks, std::uint32_t slots)
    : slots_(slots), place_(tasks.size()) {
  forwards_.reserve(tasks.size());
}

void ScheduleWindow::begin(const StageTasks& tasks, std::span<const Task> order) noexcept {
  released_ = 0;
  forwards_.clear();
  for (const Task& task : order) {
    if (task.pass != Pass::Forward) continue;
    const std::uint32_t index = tasks.index(task.chunk, task.microbatch);
    place_[index] = static_cast<std::uint32_t>(forwards_.size());
    forwards_.push_back(index);
  }
}

}  // namespace sluice
