#include "hand_rank.hpp"

#include <array>
#include <utility>

namespace sluice::test {

struct HandRank::Device final : Executor {
  [[nodiscard]] std::uint32_t room(Lane lane) const override {
    return depth - static_cast<std::uint32_t>(running[static_cast<std::size_t>(lane)].size());
  }
  void launch(const Launch& launch) override {
    running[static_cast<std::size_t>(launch.lane)].push_back(launch);
    launches->push_back(launch);
  }
  bool poll(Done& done) override {
    if (dones.empty()) return false;
    done = dones.front();
    dones.pop_front();
    return true;
  }
  [[nodiscard]] Time next_deadline() const override { return kNever; }
  [[nodiscard]] std::string failure() const override { return "out of paper"; }

  std::uint32_t depth = 1;
  std::array<std::deque<Launch>, kLanes> running;
  std::deque<Done> dones;
  std::vector<Launch>* launches = nullptr;
};

struct HandRank::Mail final : Transport {
  explicit Mail(HandRank& owner) : rank(owner) {}

  template <typename T>
  static bool take(std::deque<T>& queue, T& item) {
    if (queue.empty()) return false;
    item = queue.front();
    queue.pop_front();
    return true;
  }
  bool poll(Offer& offer) override { return take(offers, offer); }
  void accept(const Offer& offer, Slot slot) override {
    rank.accepted.push_back(offer.id);
    arrivals.push_back({offer.id, slot});
  }
  bool poll(Arrival& arrival) override { return take(arrivals, arrival); }
  void send(const MessageId& id, Slot slot) override {
    rank.sent.push_back(id);
    pending.push_back({id, slot});
    const Edge& edge = rank.pipeline.edges()[id.edge];
    const Chunk receiver = id.direction == Direction::Activation ? edge.to : edge.from;
    if (rank.pipeline.stage_of(receiver) == rank.dispatcher.config().stage) offers.push_back({id, 0, 0, {}});
  }
  bool poll(SendDone& done) override {
    if (rank.sends_are_taken) {
      taken.insert(taken.end(), pending.begin(), pending.end());
      pending.clear();
    }
    return take(taken, done);
  }
  [[nodiscard]] Time next_deadline() const override { return kNever; }

  HandRank& rank;
  std::deque<Offer> offers;
  std::deque<Arrival> arrivals;
  std::deque<SendDone> pending;
  std::deque<SendDone> taken;
};

HandRank::HandRank(Pipeline shape, const DispatcherConfig& config, Policy policy, std::uint32_t depth)
    : pipeline(std::move(shape)),
      device_(std::make_shared<Device>()),
      mail_(std::make_shared<Mail>(*this)),
      dispatcher(pipeline, config, std::move(policy), {*device_, *mail_, agreement_, clock_}) {
  device_->depth = depth;
  device_->launches = &launches;
}

void HandRank::begin(const Iteration& iteration) {
  dispatcher.begin(iteration);
  settle();
}

void HandRank::settle() {
  while (dispatcher.progress()) {
  }
}

void HandRank::offer(const MessageId& id) {
  mail_->offers.push_back({id, 0, 0, {}});
  settle();
}

void HandRank::activation(Microbatch microbatch, EdgeId edge) {
  offer({dispatcher.iteration().index, microbatch, edge, Direction::Activation});
}

void HandRank::gradient(Microbatch microbatch, EdgeId edge) {
  offer({dispatcher.iteration().index, microbatch, edge, Direction::Gradient});
}

void HandRank::end(Lane lane, Status status) {
  auto& queue = device_->running[static_cast<std::size_t>(lane)];
  const Launch launch = queue.at(0);
  queue.pop_front();
  device_->dones.push_back({launch.task, launch.slot, {}, {}, status, launch.whole});
  settle();
}

void HandRank::finish(Lane lane) { end(lane, Status::Ok); }
void HandRank::fail(Lane lane) { end(lane, Status::Failed); }

Tasks HandRank::finish_all() {
  Tasks ended;
  for (bool any = true; any;) {
    any = false;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      if (device_->running[lane].empty()) continue;
      ended.push_back(device_->running[lane].front().task);
      finish(static_cast<Lane>(lane));
      any = true;
    }
  }
  return ended;
}

void HandRank::take_sends() {
  mail_->taken.insert(mail_->taken.end(), mail_->pending.begin(), mail_->pending.end());
  mail_->pending.clear();
  settle();
}

Tasks HandRank::launched() {
  Tasks tasks;
  while (told_ < launches.size()) tasks.push_back(launches[told_++].task);
  return tasks;
}

DispatcherConfig stage_config(StageId stage, std::uint32_t limit, Rules rules) {
  DispatcherConfig config;
  config.rank = config.stage = stage;
  config.limit = limit;
  config.rules = rules;
  config.record_decisions = true;
  return config;
}

}  // namespace sluice::test
