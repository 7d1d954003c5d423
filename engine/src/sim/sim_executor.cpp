#include "sluice/sim/sim_executor.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "sluice/error.hpp"

namespace sluice::sim {

SimDevice::SimDevice(std::uint32_t first_rank, std::uint32_t members, const Clock& clock,
                     Timetable& timetable, TaskTime task_time, std::uint32_t depth, Duration notice)
    : first_rank_(first_rank),
      clock_(clock),
      timetable_(timetable),
      task_time_(std::move(task_time)),
      depth_(depth),
      notice_(notice) {
  if (depth == 0) throw ConfigError("launch-ahead", "an executor holds at least one task");
  if (members == 0) throw ConfigError("group", "a stage has at least one rank");
  for (LaneState& lane : lanes_) {
    lane.launches.resize(depth);
    lane.members.resize(members);
    for (Queue& queue : lane.members) queue.dones.resize(depth);
  }
}

std::uint32_t SimDevice::room(std::uint32_t member, Lane lane) const {
  const Queue& queue = state(lane).members[member];
  return depth_ - static_cast<std::uint32_t>(queue.launched - queue.polled);
}

void SimDevice::launch(std::uint32_t member, const Launch& launch) {
  LaneState& lane = state(launch.lane);
  Queue& queue = lane.members[member];
  const auto at = static_cast<std::size_t>(queue.launched % depth_);
  const bool first = std::all_of(lane.members.begin(), lane.members.end(),
                                 [&](const Queue& each) { return each.launched <= queue.launched; });
  if (first) lane.launches[at] = launch;
  if (lane.launches[at].task != launch.task || lane.launches[at].whole != launch.whole) {
    throw ProtocolError("ranks of the group of rank " + std::to_string(first_rank_) +
                        " launch different tasks: " + to_string(lane.launches[at].task) + " and " +
                        to_string(launch.task));
  }
  queue.dones[at] = {launch.task, launch.slot, Time{0}, Time{0}, Status::Ok, launch.whole};
  ++queue.launched;
  const bool last = std::all_of(lane.members.begin(), lane.members.end(),
                                [&](const Queue& each) { return each.launched > lane.started; });
  if (last) start(lane);
}

void SimDevice::start(LaneState& lane) {
  const auto at = static_cast<std::size_t>(lane.started % depth_);
  const Time started = std::max(clock_.now(), lane.end);
  const Duration takes = task_time_(lane.launches[at]);
  lane.end = started + takes;
  busy_ += takes;
  ++lane.started;
  for (std::uint32_t member = 0; member < lane.members.size(); ++member) {
    Done& done = lane.members[member].dones[at];
    done.started = started;
    done.ended = lane.end;
    timetable_.add(lane.end + notice_, first_rank_ + member);
  }
}

Time SimDevice::free_from() const noexcept {
  Time last{0};
  for (const LaneState& lane : lanes_) last = std::max(last, lane.end);
  return last;
}

bool SimDevice::poll(std::uint32_t member, Done& done) {
  for (LaneState& lane : lanes_) {
    Queue& queue = lane.members[member];
    if (queue.polled == lane.started) continue;
    const Done& next = queue.dones[static_cast<std::size_t>(queue.polled % depth_)];
    if (next.ended + notice_ > clock_.now()) continue;
    done = next;
    ++queue.polled;
    return true;
  }
  return false;
}

Time SimDevice::next_deadline(std::uint32_t member) const {
  Time next = kNever;
  for (const LaneState& lane : lanes_) {
    const Queue& queue = lane.members[member];
    if (queue.polled == lane.started) continue;
    next = std::min(next, queue.dones[static_cast<std::size_t>(queue.polled % depth_)].ended + notice_);
  }
  return next;
}

SimExecutor::SimExecutor(std::uint32_t rank, const Clock& clock, Timetable& timetable, TaskTime task_time,
                         std::uint32_t depth)
    : own_(std::make_unique<SimDevice>(rank, 1, clock, timetable, std::move(task_time), depth, Duration{0})),
      device_(own_.get()),
      member_(0) {}

bool SimExecutor::poll(Done& done) {
  if (!device_->poll(member_, done)) return false;
  average_.add(done.ended - done.started);
  if (ran_ != nullptr) ran_->push_back(done);
  return true;
}

}  // namespace sluice::sim
