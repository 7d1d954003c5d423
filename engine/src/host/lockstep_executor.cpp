#include "sluice/host/lockstep_executor.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "sluice/error.hpp"

namespace sluice::host {
namespace {

/// What a rank says of a task it launches.
struct Launched {
  std::uint64_t number = 0;
  Task task;
  Time at{};
  Lane lane = Lane::Compute;
};
static_assert(sizeof(Launched) <= LockstepExecutor::kLongestMessage);

}  // namespace

LockstepExecutor::LockstepExecutor(const Clock& clock, agree::GroupChannel& peers, TaskTime task_time,
                                   std::uint32_t depth, Duration lead)
    : clock_(clock), peers_(peers), task_time_(std::move(task_time)), depth_(depth), lead_(lead) {
  if (depth == 0) throw ConfigError("launch-ahead", "an executor holds at least one task");
  for (Queue& queue : lanes_) {
    // A rank may have seen the end of a task, and launched as many again, before another looks.
    queue.joint.resize(std::size_t{2} * depth);
    queue.launched_by.resize(peers.members());
  }
}

std::uint32_t LockstepExecutor::room(Lane lane) const {
  const Queue& queue = lanes_[static_cast<std::size_t>(lane)];
  const auto held = static_cast<std::uint32_t>(queue.launched - queue.polled);
  if (lead_ == EmulatedExecutor::kAnyLead || held == 0) return depth_ - held;
  const bool known = queue.started == queue.launched;
  return known && queue.free_from - clock_.now() <= lead_ ? depth_ - held : 0;
}

void LockstepExecutor::launch(const Launch& launch) {
  Queue& queue = lanes_[static_cast<std::size_t>(launch.lane)];
  const Launched message{queue.launched++, launch.task, clock_.now(), launch.lane};
  joint(queue, message.number).launch = launch;
  join(queue, message.number, peers_.member(), message.task, message.at);
  for (std::uint32_t member = 0; member < peers_.members(); ++member) {
    if (member != peers_.member()) peers_.send(member, std::as_bytes(std::span(&message, 1)));
  }
  // If all have launched it, it is known when it ends.
  receive();
}

bool LockstepExecutor::poll(Done& done) {
  receive();
  for (Queue& queue : lanes_) {
    if (queue.polled == queue.started) continue;
    const Joint& next = joint(queue, queue.polled);
    if (next.ended > clock_.now()) continue;
    done = {next.launch.task, next.launch.slot, next.started, next.ended, Status::Ok, next.launch.whole};
    joint(queue, queue.polled++) = {};
    return true;
  }
  return false;
}

Time LockstepExecutor::next_deadline() const {
  Time next = kNever;
  for (const Queue& queue : lanes_) {
    if (queue.polled == queue.started) continue;
    next = std::min(next, queue.joint[static_cast<std::size_t>(queue.polled % queue.joint.size())].ended);
    const bool more = queue.launched - queue.polled < depth_ && queue.started == queue.launched;
    if (lead_ == EmulatedExecutor::kAnyLead || !more) continue;
    if (const Time opens = queue.free_from - lead_; opens > clock_.now()) next = std::min(next, opens);
  }
  return next;
}

void LockstepExecutor::receive() {
  std::uint32_t from = 0;
  std::span<const std::byte> bytes;
  while (peers_.poll(from, bytes)) {
    Launched message;
    if (bytes.size() != sizeof message) throw ProtocolError("a launch of another size than it has");
    std::memcpy(&message, bytes.data(), sizeof message);
    if (static_cast<std::size_t>(message.lane) >= kLanes || from >= peers_.members())
      throw ProtocolError("a launch on a lane, or of a rank, that does not exist");
    join(lanes_[static_cast<std::size_t>(message.lane)], message.number, from, message.task, message.at);
  }
}

void LockstepExecutor::join(Queue& queue, std::uint64_t number, std::uint32_t member, const Task& task,
                            Time at) {
  if (number != queue.launched_by[member]++ || number >= queue.polled + queue.joint.size())
    throw ProtocolError("rank " + std::to_string(member) + " of the group launched out of turn");
  Joint& each = joint(queue, number);
  if (each.launched++ == 0) {
    each.theirs = task;
  } else if (each.theirs != task) {
    refuse(member, task, each.theirs);
  }
  each.last = std::max(each.last, at);
  if (each.launched == peers_.members()) start(queue);
}

void LockstepExecutor::start(Queue& queue) {
  Joint& each = joint(queue, queue.started++);
  each.started = std::max(each.last, queue.free_from);
  each.ended = queue.free_from = each.started + task_time_(each.launch);
}

void LockstepExecutor::refuse(std::uint32_t member, const Task& task, const Task& theirs) const {
  throw ProtocolError("the ranks of a group launch different tasks: " + to_string(task) + " on rank " +
                      std::to_string(member) + " of the group, " + to_string(theirs) + " before it");
}

}  // namespace sluice::host
