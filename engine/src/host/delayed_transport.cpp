#include "sluice/host/delayed_transport.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace sluice::host {

DelayedTransport::DelayedTransport(Transport& inner, const Pipeline& pipeline, StageId stage,
                                   const Clock& clock, DelayModel model, std::uint64_t seed,
                                   std::function<Duration()> compute_average)
    : inner_(inner),
      pipeline_(pipeline),
      stage_(stage),
      clock_(clock),
      model_(model),
      seed_(seed),
      compute_average_(std::move(compute_average)) {
  std::size_t ends = 0;
  for (const Edge& edge : pipeline.edges()) {
    ends += static_cast<std::size_t>(pipeline.stage_of(edge.to) == stage) +
            static_cast<std::size_t>(pipeline.stage_of(edge.from) == stage);
  }
  // A neighbour may be one iteration ahead.
  late_.reserve(2 * ends * pipeline.microbatches());
}

bool DelayedTransport::poll(Offer& offer) {
  while (inner_.poll(offer)) {
    const Duration delay =
        local(offer.id.edge) ? Duration{0} : model_.draw(seed_, offer.id, compute_average_());
    if (delay <= Duration{0}) return true;
    late_.push_back({clock_.now() + delay, sequence_++, offer});
    std::push_heap(late_.begin(), late_.end(), std::greater<>());
  }
  if (late_.empty() || late_.front().due > clock_.now()) return false;
  std::pop_heap(late_.begin(), late_.end(), std::greater<>());
  offer = late_.back().offer;
  late_.pop_back();
  return true;
}

Time DelayedTransport::next_deadline() const {
  return late_.empty() ? inner_.next_deadline() : std::min(late_.front().due, inner_.next_deadline());
}

bool DelayedTransport::local(EdgeId edge) const {
  if (edge >= pipeline_.edges().size()) return false;
  const Edge& ends = pipeline_.edges()[edge];
  return pipeline_.stage_of(ends.from) == stage_ && pipeline_.stage_of(ends.to) == stage_;
}

}  // namespace sluice::host
