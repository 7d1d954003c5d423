#include "sluice/inbox.hpp"

#include <algorithm>
#include <string>

#include "sluice/error.hpp"

namespace sluice {

Inbox::Inbox(const Pipeline& pipeline, StageId stage, std::uint32_t rank)
    : rank_(rank),
      microbatches_(pipeline.microbatches()),
      in_place_(pipeline.edges().size(), kForeign),
      out_place_(pipeline.edges().size(), kForeign) {
  std::uint32_t in = 0;
  std::uint32_t out = 0;
  for (std::size_t id = 0; id < pipeline.edges().size(); ++id) {
    const Edge& edge = pipeline.edges()[id];
    if (pipeline.stage_of(edge.to) == stage) in_place_[id] = in++;
    if (pipeline.stage_of(edge.from) == stage) out_place_[id] = out++;
  }
  activations_.resize(std::size_t{in} * microbatches_);
  gradients_.resize(std::size_t{out} * microbatches_, State::Absent);
  held_.reserve(activations_.size());
}

void Inbox::begin(std::uint64_t iteration) {
  for (const Offer& offer : held_) {
    if (offer.id.iteration != iteration) refuse(offer.id, "came before the iteration that begins");
  }
  iteration_ = iteration;
  begun_ = true;
  active_ = true;
  for (Activation& activation : activations_) activation.state = State::Absent;
  std::fill(gradients_.begin(), gradients_.end(), State::Absent);
}

bool Inbox::file(const Offer& offer) {
  const MessageId& id = offer.id;
  check_address(id);
  if (!active_ || id.iteration != iteration_) {
    if (begun_ && id.iteration != iteration_ + 1) refuse(id, "is of an impossible iteration");
    if (id.direction == Direction::Gradient) refuse(id, "came before its forward ran");
    const auto twin =
        std::any_of(held_.begin(), held_.end(), [&](const Offer& held) { return held.id == id; });
    if (twin || held_.size() == held_.capacity()) refuse(id, "came twice");
    held_.push_back(offer);
    return false;
  }
  if (state(id.edge, id.direction, id.microbatch) != State::Absent) refuse(id, "came twice");
  set(id, State::Offered);
  if (id.direction == Direction::Activation)
    activations_[activation_at(id.edge, id.microbatch)].offer = offer;
  return true;
}

void Inbox::arrived(const MessageId& id) {
  check_address(id);
  if (!active_ || id.iteration != iteration_) refuse(id, "arrived outside its iteration");
  if (state(id.edge, id.direction, id.microbatch) != State::Accepted)
    refuse(id, "arrived without being accepted");
  set(id, State::Arrived);
}

void Inbox::set(const MessageId& id, State state) noexcept {
  if (id.direction == Direction::Activation) {
    activations_[activation_at(id.edge, id.microbatch)].state = state;
  } else {
    gradients_[gradient_at(id.edge, id.microbatch)] = state;
  }
}

void Inbox::check_address(const MessageId& id) const {
  const auto& places = id.direction == Direction::Activation ? in_place_ : out_place_;
  if (id.edge >= places.size() || places[id.edge] == kForeign) refuse(id, "has no end on this rank");
  if (id.microbatch >= microbatches_) refuse(id, "is of a microbatch that does not exist");
}

void Inbox::refuse(const MessageId& id, const char* reason) const {
  throw ProtocolError("rank " + std::to_string(rank_) + ": " + to_string(id) + " " + reason);
}

}  // namespace sluice
