#include "sluice/host/in_process_network.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "sluice/error.hpp"
#include "sluice/host/spsc_ring.hpp"

namespace sluice::host {
namespace {

struct Posted {
  MessageId id;
  Slot source = kNoSlot;
};

/// Messages of one iteration from one stage to another, activations and gradients together.
std::size_t messages_between(const Pipeline& pipeline, StageId from, StageId to) {
  std::size_t edges = 0;
  for (const Edge& edge : pipeline.edges()) {
    const StageId tail = pipeline.stage_of(edge.from);
    const StageId head = pipeline.stage_of(edge.to);
    edges += static_cast<std::size_t>(tail == from && head == to) +
             static_cast<std::size_t>(head == from && tail == to);
  }
  return edges * pipeline.microbatches();
}

}  // namespace

/// One way from a stage to another: offers go down it, and word of acceptance comes back.
struct InProcessNetwork::Link {
  Link(StageId from_stage, StageId to_stage, std::size_t capacity)
      : from(from_stage), to(to_stage), offers(capacity), accepted(capacity) {}

  StageId from;
  StageId to;
  SpscRing<Posted> offers;
  SpscRing<SendDone> accepted;
};

class InProcessNetwork::Endpoint final : public Transport {
 public:
  Endpoint(const Pipeline& pipeline, StageId stage, std::span<const Member> members,
           const std::vector<std::unique_ptr<Link>>& links)
      : pipeline_(pipeline), stage_(stage), members_(members.begin(), members.end()) {
    std::size_t capacity = 0;
    for (const auto& link : links) {
      if (link->from == stage) out_.push_back(link.get());
      if (link->to != stage) continue;
      in_.push_back(link.get());
      // A neighbour may be one iteration ahead.
      capacity += 2 * messages_between(pipeline, link->from, stage);
    }
    arrivals_ = std::make_unique<SpscRing<Arrival>>(capacity);
  }

  bool poll(Offer& offer) override {
    for (std::size_t i = 0; i < in_.size(); ++i) {
      Posted posted;
      if (!in_[i]->offers.pop(posted)) continue;
      offer = {posted.id, 0, (std::uint64_t{i} << 32U) | posted.source, {}};
      return true;
    }
    return false;
  }

  void accept(const Offer& offer, Slot slot) override {
    Link& link = *in_[offer.handle >> 32U];
    const auto source = static_cast<Slot>(offer.handle);
    if (SlotBuffers* from = members_[link.from].buffers; from != nullptr)
      move_payload(offer.id, (*from)[source], slot);
    check_room(arrivals_->push({offer.id, slot}));
    check_room(link.accepted.push({offer.id, source}));
    if (link.from != stage_) members_[link.from].wake->notify();
  }

  bool poll(Arrival& arrival) override { return arrivals_->pop(arrival); }

  void send(const MessageId& id, Slot slot) override {
    const Edge& edge = pipeline_.edges()[id.edge];
    const StageId to = pipeline_.stage_of(id.direction == Direction::Activation ? edge.to : edge.from);
    Link& link = **std::find_if(out_.begin(), out_.end(), [to](const Link* each) { return each->to == to; });
    check_room(link.offers.push({id, slot}));
    if (to != stage_) members_[to].wake->notify();
  }

  bool poll(SendDone& done) override {
    return std::any_of(out_.begin(), out_.end(), [&done](Link* link) { return link->accepted.pop(done); });
  }

  [[nodiscard]] Time next_deadline() const override { return kNever; }

 private:
  void check_room(bool pushed) const {
    if (pushed) return;
    throw ProtocolError("stage " + std::to_string(stage_) +
                        ": more messages in flight than two iterations have");
  }

  void move_payload(const MessageId& id, SlotBuffer& from, Slot slot) {
    const Edge& edge = pipeline_.edges()[id.edge];
    SlotBuffer& to = (*members_[stage_].buffers)[slot];
    const std::size_t at_tail = place_of(pipeline_.out_edges(edge.from), id.edge);
    const std::size_t at_head = place_of(pipeline_.in_edges(edge.to), id.edge);
    if (id.direction == Direction::Activation) {
      to.inputs[at_head] = std::exchange(from.outputs[at_tail], {});
    } else {
      to.output_grads[at_tail] = std::exchange(from.input_grads[at_head], {});
    }
  }

  const Pipeline& pipeline_;
  StageId stage_;
  std::vector<Member> members_;
  std::vector<Link*> in_;
  std::vector<Link*> out_;
  std::unique_ptr<SpscRing<Arrival>> arrivals_;
};

InProcessNetwork::InProcessNetwork(const Pipeline& pipeline, std::span<const Member> members) {
  if (members.size() != pipeline.stages()) {
    throw ConfigError("stages", std::to_string(members.size()) + " members for " +
                                    std::to_string(pipeline.stages()) + " stages");
  }
  for (StageId from = 0; from < pipeline.stages(); ++from) {
    for (StageId to = 0; to < pipeline.stages(); ++to) {
      // A neighbour may be one iteration ahead.
      const std::size_t capacity = 2 * messages_between(pipeline, from, to);
      if (capacity > 0) links_.push_back(std::make_unique<Link>(from, to, capacity));
    }
  }
  for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
    endpoints_.push_back(std::make_unique<Endpoint>(pipeline, stage, members, links_));
  }
}

InProcessNetwork::~InProcessNetwork() = default;

Transport& InProcessNetwork::endpoint(StageId stage) { return *endpoints_[stage]; }

}  // namespace sluice::host
