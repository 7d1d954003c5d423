#include "sluice/dispatcher.hpp"

namespace sluice {

std::string Dispatcher::waiting_report() const {
  std::string report = "rank " + std::to_string(config_.rank) + ", iteration " +
                       std::to_string(iteration_.index) + ": " + std::to_string(released_) + " of " +
                       std::to_string(tasks_.size()) + " (chunk, microbatch) pairs finished, " +
                       std::to_string(in_flight_) + " in flight, limit " + std::to_string(config_.limit);
  if (!by_readiness() && cursor_ < order_.size()) report += "; next in order: " + to_string(order_[cursor_]);
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    if (unended_[lane] == 0) continue;
    report += "\n  launched and not ended: " + std::to_string(unended_[lane]) + ", the last of them " +
              to_string(last_launched_[lane]);
  }
  for (std::uint32_t position = 0; position < tasks_.chunks(); ++position) {
    const std::string wait = describe_wait(position);
    if (!wait.empty()) report += "\n  " + wait;
  }
  return report;
}

/// What the chunk's lowest unfinished microbatch lacks.
std::string Dispatcher::describe_wait(std::uint32_t position) const {
  Microbatch oldest = 0;
  const Entry* state = &entries_[std::size_t{position} * tasks_.microbatches()];
  while (oldest < tasks_.microbatches() && (state->flags & kReleased) != 0) {
    ++oldest;
    ++state;
  }
  if (oldest == tasks_.microbatches()) return {};
  const Chunk chunk = tasks_.chunk_at(position);
  const std::string who = "chunk " + std::to_string(chunk) + ", microbatch " + std::to_string(oldest) + ": ";
  const auto missing = [&](Direction direction, std::span<const EdgeId> edges) {
    std::string text;
    for (const EdgeId edge : edges) {
      if (inbox_.has_arrived(edge, direction, oldest)) continue;
      const Edge& ends = pipeline_.edges()[edge];
      const Chunk peer = direction == Direction::Activation ? ends.from : ends.to;
      text += (text.empty() ? "from stage " : ", stage ") + std::to_string(pipeline_.stage_of(peer)) +
              " (chunk " + std::to_string(peer) + ")";
    }
    return text;
  };
  if ((state->flags & kForwardLaunched) == 0) {
    if (source(position)) return who + "forward not launched, waits for the limit or its place in the order";
    const std::string from = missing(Direction::Activation, in_edges_[position]);
    if (from.empty()) return who + "forward not launched although its inputs are here";
    return who + "waits for activations " + from + (state->slot == kNoSlot ? ", no slot yet" : "");
  }
  if ((state->flags & kBackwardLaunched) == 0 && iteration_.kind == IterationKind::Training) {
    const std::string from = missing(Direction::Gradient, out_edges_[position]);
    if (!from.empty()) return who + "waits for gradients " + from;
    return who +
           "backward not launched: its forward has not ended, the device is busy, or its accumulation is not "
           "in turn";
  }
  if ((state->flags & kComputed) == 0)
    return who + "a launched task has not ended, or its weight gradient waits";
  return who + std::to_string(state->sends) + " of its messages have not been taken by their receivers";
}

}  // namespace sluice
