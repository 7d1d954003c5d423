#include "sluice/dispatcher.hpp"

namespace sluice {

Waiting Dispatcher::waiting() const {
  Waiting waiting;
  waiting.rank = config_.rank;
  waiting.stage = config_.stage;
  waiting.iteration = iteration_.index;
  waiting.finished = released_;
  waiting.pairs = tasks_.size();
  waiting.in_flight = in_flight_;
  waiting.limit = config_.limit;
  waiting.held_by_limit = held_by_limit();
  if (!by_readiness() && cursor_ < order_.size()) waiting.next_in_order = order_[cursor_];
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    if (unended_[lane] > 0)
      waiting.launched.push_back({static_cast<Lane>(lane), unended_[lane], last_launched_[lane]});
  }
  for (std::uint32_t index = 0; index < tasks_.size(); ++index) add_wait(index, waiting);
  return waiting;
}

WaitFor Dispatcher::waits_for() const {
  if (computed_ == tasks_.size()) return WaitFor::Receiver;
  if (lanes_with_room() == 0) return WaitFor::Device;
  if (!by_readiness()) return order_waits_for();
  bool out_of_focus = false;
  for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::WeightGrad}) {
    if (arbiter_.runnable(pass) == 0) continue;
    if (const std::optional<Task> candidate = arbiter_.candidate(mask_of(pass))) return held_by(*candidate);
    out_of_focus = true;
  }
  if (held_by_limit() > 0) return WaitFor::Admission;
  if (out_of_focus || held_by_order_ > 0) return WaitFor::Order;
  return launched_pairs_ == tasks_.size() ? WaitFor::Device : WaitFor::Message;
}

WaitFor Dispatcher::order_waits_for() const {
  if (cursor_ == order_.size()) return WaitFor::Device;
  const Task& task = order_[cursor_];
  const std::uint32_t position = tasks_.position(task.chunk);
  if ((lanes_with_room() & mask_of(task.pass)) == 0) return WaitFor::Device;
  if (task.pass == Pass::Forward) {
    const std::uint32_t rank = policy_.hint().rank(task.pass, tasks_.index(task.chunk, task.microbatch));
    return source(position) || waiting_[position].contains(rank) ? WaitFor::Admission : WaitFor::Message;
  }
  if (task.pass == Pass::WeightGrad) return WaitFor::Device;
  for (const EdgeId edge : out_edges_[position]) {
    if (!inbox_.has_arrived(edge, Direction::Gradient, task.microbatch)) return WaitFor::Message;
  }
  return WaitFor::Device;
}

std::string Dispatcher::waiting_report() const { return to_string(waiting()); }

/// What the pair's next task lacks.
void Dispatcher::add_wait(std::uint32_t index, Waiting& waiting) const {
  const Entry& state = entries_[index];
  const std::uint32_t position = index / tasks_.microbatches();
  if ((state.flags & kReleased) != 0) return;
  if ((state.flags & kForwardLaunched) == 0) {
    const Task task = tasks_.task(Pass::Forward, index);
    if (!add_ready(task, waiting)) add_forward_wait(task, state, waiting);
  } else if ((state.flags & kComputed) != 0) {
    // Which of several messages is left is known to the transport only.
    const bool training = iteration_.kind == IterationKind::Training;
    const Task task = tasks_.task(training ? Pass::Backward : Pass::Forward, index);
    for (const EdgeId edge : training ? in_edges_[position] : out_edges_[position]) {
      waiting.blocked.push_back(
          {task, WaitFor::Receiver,
           far_end(edge, training ? Direction::Gradient : Direction::Activation, false)});
    }
  } else if ((state.flags & kBackwardLaunched) == 0 && iteration_.kind == IterationKind::Training) {
    const Task task = tasks_.task(Pass::Backward, index);
    if (!add_ready(task, waiting)) add_backward_wait(task, state, waiting);
  } else {
    const bool whole = (state.flags & kWhole) != 0;
    const Pass last = iteration_.kind == IterationKind::ForwardOnly ? Pass::Forward
                      : whole                                       ? Pass::Backward
                                                                    : Pass::WeightGrad;
    const Task task = tasks_.task(last, index);
    const bool turn = (state.flags & kWaitsForTurn) != 0;
    if (!add_ready(task, waiting))
      waiting.blocked.push_back({task, turn ? WaitFor::Order : WaitFor::Device, std::nullopt});
  }
}

/// False if the task is not runnable.
bool Dispatcher::add_ready(const Task& task, Waiting& waiting) const {
  if (!arbiter_.contains(task)) return false;
  waiting.ready.push_back({task, held_by(task), std::nullopt});
  return true;
}

/// What keeps a runnable task.
WaitFor Dispatcher::held_by(const Task& task) const {
  if ((lanes_with_room() & mask_of(task.pass)) == 0) return WaitFor::Device;
  if (!by_readiness())
    return cursor_ < order_.size() && order_[cursor_] == task ? WaitFor::Device : WaitFor::Order;
  if (task.pass == Pass::Forward && backpressure_.holds_forwards()) return WaitFor::Admission;
  if (arbiter_.focusing() && arbiter_.focus() != task) return WaitFor::Order;
  return WaitFor::Agreement;
}

void Dispatcher::add_forward_wait(const Task& task, const Entry& state, Waiting& waiting) const {
  const std::uint32_t position = tasks_.position(task.chunk);
  if (source(position)) {
    const WaitFor what = admits(position, task.microbatch) ? WaitFor::Order : WaitFor::Admission;
    waiting.blocked.push_back({task, what, std::nullopt});
    return;
  }
  for (const EdgeId edge : in_edges_[position]) {
    if (inbox_.has_arrived(edge, Direction::Activation, task.microbatch)) continue;
    const bool held = state.slot == kNoSlot && inbox_.offered(edge, task.microbatch);
    waiting.blocked.push_back(
        {task, held ? WaitFor::Admission : WaitFor::Message, far_end(edge, Direction::Activation, true)});
  }
}

void Dispatcher::add_backward_wait(const Task& task, const Entry& state, Waiting& waiting) const {
  const std::size_t before = waiting.blocked.size();
  for (const EdgeId edge : out_edges_[tasks_.position(task.chunk)]) {
    if (!inbox_.has_arrived(edge, Direction::Gradient, task.microbatch))
      waiting.blocked.push_back({task, WaitFor::Message, far_end(edge, Direction::Gradient, true)});
  }
  if (waiting.blocked.size() > before) return;
  const bool turn = (state.flags & kWaitsForTurn) != 0;
  waiting.blocked.push_back({task, turn ? WaitFor::Order : WaitFor::Device, std::nullopt});
}

/// @param incoming the message comes here, or else leaves here
FarEnd Dispatcher::far_end(EdgeId edge, Direction direction, bool incoming) const {
  const Edge& ends = pipeline_.edges()[edge];
  const Chunk chunk = (direction == Direction::Activation) == incoming ? ends.from : ends.to;
  return {edge, direction, chunk, pipeline_.stage_of(chunk)};
}

}  // namespace sluice
