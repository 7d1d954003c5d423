#include "sluice/sim/sim_network.hpp"

#include <queue>
#include <utility>

namespace sluice::sim {
namespace {

struct Posted {
  Time due;
  std::uint64_t sequence;
  MessageId id;
  StageId sender;
  Slot source;

  friend bool operator>(const Posted& a, const Posted& b) {
    return a.due != b.due ? a.due > b.due : a.sequence > b.sequence;
  }
};

/// First in, first out; emptied often, so it keeps its memory and never moves anything.
template <typename T>
class Queue {
 public:
  void push(const T& item) { items_.push_back(item); }
  bool pop(T& item) {
    if (head_ == items_.size()) return false;
    item = items_[head_++];
    if (head_ == items_.size()) {
      items_.clear();
      head_ = 0;
    }
    return true;
  }

 private:
  std::vector<T> items_;
  std::size_t head_ = 0;
};

}  // namespace

class SimNetwork::Endpoint final : public Transport {
 public:
  Endpoint(StageId stage, std::uint32_t member, std::uint32_t members, const Pipeline& pipeline,
           const Clock& clock, Timetable& timetable, const MessageDelay& delay,
           std::vector<std::unique_ptr<Endpoint>>& peers)
      : stage_(stage),
        member_(member),
        members_(members),
        pipeline_(pipeline),
        clock_(clock),
        timetable_(timetable),
        delay_(delay),
        peers_(peers) {}

  bool poll(Offer& offer) override {
    if (posted_.empty() || posted_.top().due > clock_.now()) return false;
    const Posted& message = posted_.top();
    offer = {message.id, 0, (std::uint64_t{message.sender} << 32U) | message.source, {}};
    posted_.pop();
    return true;
  }

  void accept(const Offer& offer, Slot slot) override {
    arrivals_.push({offer.id, slot});
    const auto sender = static_cast<StageId>(offer.handle >> 32U);
    peers_[rank_of(sender)]->sent_.push({offer.id, static_cast<Slot>(offer.handle)});
    if (sender != stage_) timetable_.add(clock_.now(), rank_of(sender));
  }

  bool poll(Arrival& arrival) override { return arrivals_.pop(arrival); }

  void send(const MessageId& id, Slot slot) override {
    const Edge& edge = pipeline_.edges()[id.edge];
    const StageId receiver = pipeline_.stage_of(id.direction == Direction::Activation ? edge.to : edge.from);
    const Duration late = receiver == stage_ ? Duration{0} : delay_({id, receiver, member_, {}});
    const Time due = clock_.now() + late;
    peers_[rank_of(receiver)]->posted_.push({due, sequence_++, id, stage_, slot});
    if (receiver != stage_) timetable_.add(due, rank_of(receiver));
  }

  bool poll(SendDone& done) override { return sent_.pop(done); }

  [[nodiscard]] Time next_deadline() const override { return posted_.empty() ? kNever : posted_.top().due; }

 private:
  [[nodiscard]] std::uint32_t rank_of(StageId stage) const { return stage * members_ + member_; }

  StageId stage_;
  std::uint32_t member_;
  std::uint32_t members_;
  const Pipeline& pipeline_;
  const Clock& clock_;
  Timetable& timetable_;
  const MessageDelay& delay_;
  std::vector<std::unique_ptr<Endpoint>>& peers_;
  std::uint64_t sequence_ = 0;
  std::priority_queue<Posted, std::vector<Posted>, std::greater<>> posted_;
  Queue<Arrival> arrivals_;
  Queue<SendDone> sent_;
};

SimNetwork::SimNetwork(const Pipeline& pipeline, const Clock& clock, Timetable& timetable, MessageDelay delay,
                       std::uint32_t members)
    : delay_(std::move(delay)), members_(members) {
  for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
    for (std::uint32_t member = 0; member < members; ++member) {
      endpoints_.push_back(
          std::make_unique<Endpoint>(stage, member, members, pipeline, clock, timetable, delay_, endpoints_));
    }
  }
}

SimNetwork::~SimNetwork() = default;

Transport& SimNetwork::endpoint(StageId stage, std::uint32_t member) {
  return *endpoints_[std::size_t{stage} * members_ + member];
}

}  // namespace sluice::sim
