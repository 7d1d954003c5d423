#include "sluice/sim/sim_executor.hpp"

#include <utility>

namespace sluice::sim {

SimExecutor::SimExecutor(std::uint32_t rank, const Clock& clock, Timetable& timetable, TaskTime task_time,
                         std::uint32_t depth)
    : rank_(rank), timetable_(timetable), device_(clock, std::move(task_time), depth) {}

void SimExecutor::launch(const Launch& launch) {
  device_.launch(launch);
  timetable_.add(device_.end_of_last(launch.lane), rank_);
}

}  // namespace sluice::sim
