#include <algorithm>

#include "sluice/dispatcher.hpp"
#include "sluice/error.hpp"

namespace sluice {

bool Dispatcher::poll_done() {
  bool happened = false;
  for (Done done; seams_.executor.poll(done);) {
    happened = true;
    if (done.status == Status::Failed) throw TaskError(config_.rank, done.task, seams_.executor.failure());
    if (recording()) note_done(done);
    if (config_.observer != nullptr) config_.observer->finished(done);
    finish(done);
  }
  return happened;
}

bool Dispatcher::poll_send_done() {
  bool happened = false;
  for (SendDone done; seams_.transport.poll(done);) {
    happened = true;
    if (recording()) note_message(EventKind::SendDone, done.id, done.slot);
    const Edge& edge = pipeline_.edges()[done.id.edge];
    const bool activation = done.id.direction == Direction::Activation;
    const Task task{done.id.microbatch, activation ? edge.from : edge.to,
                    activation ? Pass::Forward : Pass::Backward};
    Entry& state = entry(task);
    --state.sends;
    give_back(task, state);
  }
  return happened;
}

bool Dispatcher::poll_offers() {
  bool happened = false;
  for (Offer offer; seams_.transport.poll(offer);) {
    happened = true;
    if (recording()) note_message(EventKind::Offered, offer.id);
    take_offer(offer);
  }
  return happened;
}

bool Dispatcher::poll_arrivals() {
  bool happened = false;
  for (Arrival arrival; seams_.transport.poll(arrival);) {
    happened = true;
    inbox_.arrived(arrival.id);
    if (recording()) note_message(EventKind::Arrived, arrival.id, arrival.slot);
    if (config_.observer != nullptr) config_.observer->arrived(arrival);
    const Edge& edge = pipeline_.edges()[arrival.id.edge];
    if (arrival.id.direction == Direction::Activation) {
      const Task task{arrival.id.microbatch, edge.to, Pass::Forward};
      if (--entry(task).inputs_missing == 0) set_runnable(task, true);
    } else {
      const Task task{arrival.id.microbatch, edge.from, Pass::Backward};
      if (Entry& state = entry(task); --state.gradients_missing == 0) backward_ready(task, state);
    }
  }
  return happened;
}

void Dispatcher::finish(const Done& done) {
  Entry& state = entry(done.task);
  --unended_[static_cast<std::size_t>(lane(done.task.pass))];
  if (unended_ == decltype(unended_){}) seams_.agreement.device_idle(done.ended);
  switch (done.task.pass) {
    case Pass::Forward:
      finish_forward(done.task, state);
      break;
    case Pass::Backward:
      finish_backward(done.task, state);
      break;
    case Pass::WeightGrad:
      if (!same_lane(Pass::Backward, Pass::WeightGrad)) accumulated(tasks_.position(done.task.chunk));
      computed(done.task, state);
      break;
  }
}

void Dispatcher::finish_forward(const Task& task, Entry& state) {
  for (const EdgeId edge : out_edges_[tasks_.position(task.chunk)])
    send(task, edge, Direction::Activation, state);
  if (iteration_.kind == IterationKind::ForwardOnly) {
    computed(task, state);
  } else if (!same_lane(Pass::Forward, Pass::Backward)) {
    forward_available(task, state);
  }
}

void Dispatcher::finish_backward(const Task& task, Entry& state) {
  for (const EdgeId edge : in_edges_[tasks_.position(task.chunk)])
    send(task, edge, Direction::Gradient, state);
  const bool whole = (state.flags & kWhole) != 0;
  if (!same_lane(Pass::Backward, Pass::WeightGrad)) {
    if (whole) {
      accumulated(tasks_.position(task.chunk));
    } else {
      weight_grad_available(task, state);
    }
  }
  if (!config_.rules.hold_until_weight_grad) --in_flight_;
  if (whole) {
    computed(task, state);
  } else if (!config_.rules.hold_until_weight_grad) {
    give_back(task, state);
  }
}

void Dispatcher::send(const Task& task, EdgeId edge, Direction direction, Entry& state) {
  ++state.sends;
  const MessageId id{iteration_.index, task.microbatch, edge, direction};
  if (recording()) note_message(EventKind::Sent, id, state.slot);
  seams_.transport.send(id, state.slot);
}

void Dispatcher::forward_available(const Task& task, Entry& state) {
  if (iteration_.kind == IterationKind::ForwardOnly) return;
  if (--state.gradients_missing == 0) backward_ready({task.microbatch, task.chunk, Pass::Backward}, state);
}

void Dispatcher::backward_ready(const Task& task, Entry& state) {
  if (!in_turn(task) && !pipeline_.splittable(task.chunk)) {
    wait_for_turn(state);
  } else {
    set_runnable(task, true);
  }
}

void Dispatcher::weight_grad_available(const Task& task, Entry& state) {
  const Task tail{task.microbatch, task.chunk, Pass::WeightGrad};
  if (in_turn(tail)) {
    set_runnable(tail, true);
  } else {
    wait_for_turn(state);
  }
}

void Dispatcher::wait_for_turn(Entry& state) {
  state.flags |= kWaitsForTurn;
  ++held_by_order_;
}

void Dispatcher::accumulated(std::uint32_t position) {
  if (accumulating_[position].running > 0) --accumulating_[position].running;
  if (!config_.rules.ordered_accumulation || !by_readiness()) return;
  const Microbatch next = ++next_accumulation_[position];
  if (next == tasks_.microbatches()) return;
  Entry& state = entries_[position * tasks_.microbatches() + next];
  if ((state.flags & kWaitsForTurn) == 0) return;
  state.flags &= static_cast<std::uint8_t>(~kWaitsForTurn);
  --held_by_order_;
  const Pass pass = (state.flags & kBackwardLaunched) != 0 ? Pass::WeightGrad : Pass::Backward;
  set_runnable({next, tasks_.chunk_at(position), pass}, true);
}

void Dispatcher::computed(const Task& task, Entry& state) {
  state.flags |= kComputed;
  ++computed_;
  // Its messages may still wait to be taken: that holds the slot, but computes nothing.
  if (config_.rules.hold_until_weight_grad || iteration_.kind == IterationKind::ForwardOnly) --in_flight_;
  give_back(task, state);
}

void Dispatcher::give_back(const Task& task, Entry& state) {
  const std::uint32_t position = tasks_.position(task.chunk);
  const bool done = (state.flags & kComputed) != 0 && state.sends == 0;
  const bool early = !config_.rules.hold_until_weight_grad && task.pass == Pass::Backward;
  if ((done || early) && (state.flags & kCredited) == 0) {
    state.flags |= kCredited;
    if (by_readiness()) backpressure_.released(position, task.microbatch);
  }
  if (!done || (state.flags & kReleased) != 0) return;
  state.flags |= kReleased;
  ++released_;
  pool_.release(state.slot);
  if (!by_readiness()) move_window();
  if (!finished()) return;
  if (recording()) note_iteration(EventKind::IterationEnd);
  if (config_.observer != nullptr) config_.observer->ended(iteration_);
  inbox_.end();
}

void Dispatcher::move_window() {
  window_.released();
  std::uint32_t opened = 0;
  if (!window_.opened(opened)) return;
  const std::uint32_t position = opened / tasks_.microbatches();
  if (source(position) || !waiting_[position].contains(policy_.hint().rank(Pass::Forward, opened))) return;
  admit(position, opened % tasks_.microbatches());
}

void Dispatcher::take_offer(const Offer& offer) {
  if (!inbox_.file(offer)) return;
  if (offer.id.direction == Direction::Activation) {
    take_activation(offer);
  } else {
    take_gradient(offer);
  }
}

void Dispatcher::accept(const Offer& offer, Slot slot) {
  inbox_.accepted(offer.id);
  if (recording()) note_message(EventKind::Accepted, offer.id, slot);
  seams_.transport.accept(offer, slot);
}

void Dispatcher::take_activation(const Offer& offer) {
  const Chunk chunk = pipeline_.edges()[offer.id.edge].to;
  const std::uint32_t position = tasks_.position(chunk);
  const std::uint32_t index = tasks_.index(chunk, offer.id.microbatch);
  if (entries_[index].slot != kNoSlot) {
    accept(offer, entries_[index].slot);
  } else if (!by_readiness() && admits(position, offer.id.microbatch)) {
    admit(position, offer.id.microbatch);
  } else {
    waiting_[position].insert(policy_.hint().rank(Pass::Forward, index));
  }
}

void Dispatcher::take_gradient(const Offer& offer) {
  const Chunk chunk = pipeline_.edges()[offer.id.edge].from;
  const Entry& state = entries_[tasks_.index(chunk, offer.id.microbatch)];
  if (iteration_.kind == IterationKind::ForwardOnly || (state.flags & kForwardLaunched) == 0) {
    throw ProtocolError("rank " + std::to_string(config_.rank) + ": " + to_string(offer.id) +
                        " came before its forward ran");
  }
  accept(offer, state.slot);
}

bool Dispatcher::admits(std::uint32_t position, Microbatch microbatch) const {
  if (by_readiness()) return backpressure_.admits(position, microbatch);
  return window_.admits(position * tasks_.microbatches() + microbatch);
}

void Dispatcher::admit_waiting() {
  if (!by_readiness()) return;
  while (admit_first_waiting()) {
  }
}

/// Admits the best-ranked forward that may come in: any of a chunk that is open, else a chunk's oldest.
bool Dispatcher::admit_first_waiting() {
  const Hint& hint = policy_.hint();
  std::uint32_t best = ReadySet::kNone;
  for (std::uint32_t position = 0; position < tasks_.chunks(); ++position) {
    const ReadySet& waiting = waiting_[position];
    if (waiting.empty()) continue;
    if (backpressure_.open(position)) {
      best = std::min(best, waiting.first());
      continue;
    }
    const Microbatch oldest = backpressure_.oldest(position);
    const std::uint32_t rank = hint.rank(Pass::Forward, position * tasks_.microbatches() + oldest);
    if (admits(position, oldest) && waiting.contains(rank)) best = std::min(best, rank);
  }
  if (best == ReadySet::kNone) return false;
  const Task task = hint.task(hint.class_of(Pass::Forward), best);
  admit(tasks_.position(task.chunk), task.microbatch);
  return true;
}

void Dispatcher::admit(std::uint32_t position, Microbatch microbatch) {
  const std::uint32_t index = position * tasks_.microbatches() + microbatch;
  entries_[index].slot = pool_.acquire();
  const bool nominee = source(position) && nominees_hold_credits();
  if (by_readiness() && !nominee) backpressure_.admitted(position, microbatch);
  if (!source(position)) waiting_[position].erase(policy_.hint().rank(Pass::Forward, index));
  for (const EdgeId edge : in_edges_[position]) {
    if (!inbox_.offered(edge, microbatch)) continue;
    const Offer& offer = inbox_.offer(edge, microbatch);
    accept(offer, entries_[index].slot);
  }
}

}  // namespace sluice
