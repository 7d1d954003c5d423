#include "sluice/host/emulated_executor.hpp"

#include <algorithm>
#include <utility>

#include "sluice/error.hpp"

namespace sluice::host {

EmulatedExecutor::EmulatedExecutor(const Clock& clock, TaskTime task_time, std::uint32_t depth, Duration lead)
    : clock_(clock), task_time_(std::move(task_time)), depth_(depth), lead_(lead) {
  if (depth == 0) throw ConfigError("launch-ahead", "an executor holds at least one task");
  for (Queue& queue : lanes_) queue.ring.resize(depth);
}

std::uint32_t EmulatedExecutor::room(Lane lane) const {
  const Queue& launched = queue(lane);
  const bool early = lead_ != kAnyLead && launched.size > 0 && launched.back().ended - clock_.now() > lead_;
  return early ? 0 : depth_ - launched.size;
}

void EmulatedExecutor::launch(const Launch& launch) {
  Queue& lane = queue(launch.lane);
  const Time now = clock_.now();
  const Time started = lane.size == 0 ? now : std::max(now, lane.back().ended);
  lane.ring[(lane.head + lane.size) % depth_] = {
      launch.task, launch.slot, started, started + task_time_(launch), Status::Ok, launch.whole};
  ++lane.size;
}

bool EmulatedExecutor::poll(Done& done) {
  for (Queue& lane : lanes_) {
    if (lane.size == 0 || lane.front().ended > clock_.now()) continue;
    done = lane.front();
    lane.head = (lane.head + 1) % depth_;
    --lane.size;
    return true;
  }
  return false;
}

Time EmulatedExecutor::next_deadline() const {
  Time next = kNever;
  for (const Queue& lane : lanes_) {
    if (lane.size == 0) continue;
    next = std::min(next, lane.front().ended);
    if (lead_ == kAnyLead || lane.size == depth_) continue;
    if (const Time opens = lane.back().ended - lead_; opens > clock_.now()) next = std::min(next, opens);
  }
  return next;
}

}  // namespace sluice::host
