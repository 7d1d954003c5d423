#include "staggered_world.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "sluice/agree/form.hpp"
#include "sluice/error.hpp"

namespace sluice::test {

/// Who owns which slot of one rank: from the first accepted activation, or the forward's launch, until
/// the last pass and all sends are over.
class StaggeredWorld::Audit {
 public:
  Audit(const Pipeline& pipeline, StageId stage) : pipeline_(pipeline), stage_(stage) {}

  void take(Chunk chunk, Microbatch microbatch, Slot slot) {
    const auto [at, fresh] = owners_.try_emplace(slot, Owner{chunk, microbatch});
    if (!fresh) expect(at->second.is(chunk, microbatch), "taken while in use", slot);
  }

  void launched(const Launch& launch) {
    if (launch.task.pass == Pass::Forward && pipeline_.in_edges(launch.task.chunk).empty()) {
      expect(!owners_.contains(launch.slot), "taken by a source while in use", launch.slot);
      take(launch.task.chunk, launch.task.microbatch, launch.slot);
    }
    use(launch.task.chunk, launch.task.microbatch, launch.slot);
  }

  void sent(const MessageId& id, Slot slot) {
    const Edge& edge = pipeline_.edges()[id.edge];
    use(id.direction == Direction::Activation ? edge.from : edge.to, id.microbatch, slot);
  }

  /// The sends that must follow count from now on.
  void ended(const Done& done, bool last) {
    const auto at = owners_.find(done.slot);
    if (at == owners_.end()) return expect(false, "ended without an owner", done.slot);
    if (done.task.pass == Pass::Forward) at->second.sends += pipeline_.out_edges(done.task.chunk).size();
    if (done.task.pass == Pass::Backward) at->second.sends += pipeline_.in_edges(done.task.chunk).size();
    at->second.computed = last;
    free_if_over(at);
  }

  void send_done(const SendDone& done) {
    const auto at = owners_.find(done.slot);
    if (at == owners_.end()) return expect(false, "send done without an owner", done.slot);
    --at->second.sends;
    free_if_over(at);
  }

  void use(Chunk chunk, Microbatch microbatch, Slot slot) {
    const auto at = owners_.find(slot);
    expect(at != owners_.end() && at->second.is(chunk, microbatch), "used without ownership", slot);
  }

  std::vector<std::string> faults;

 private:
  struct Owner {
    Chunk chunk;
    Microbatch microbatch;
    std::size_t sends = 0;
    bool computed = false;
    [[nodiscard]] bool is(Chunk c, Microbatch m) const { return chunk == c && microbatch == m; }
  };

  void free_if_over(std::map<Slot, Owner>::iterator at) {
    if (at->second.computed && at->second.sends == 0) owners_.erase(at);
  }

  void expect(bool holds, const char* fault, Slot slot) {
    if (!holds)
      faults.push_back("stage " + std::to_string(stage_) + ", slot " + std::to_string(slot) + ": " + fault);
  }

  const Pipeline& pipeline_;
  StageId stage_;
  std::map<Slot, Owner> owners_;
};

/// Records what ran.
class StaggeredWorld::AuditedExecutor final : public Executor {
 public:
  AuditedExecutor(Executor& inner, Audit& audit, StageId stage, std::vector<Execution>& executions)
      : inner_(inner), audit_(audit), stage_(stage), executions_(executions) {}

  [[nodiscard]] std::uint32_t room(Lane lane) const override { return inner_.room(lane); }
  [[nodiscard]] Time next_deadline() const override { return inner_.next_deadline(); }

  void launch(const Launch& launch) override {
    audit_.launched(launch);
    iteration_ = launch.iteration;
    forward_only_ = launch.forward_only;
    inner_.launch(launch);
  }

  bool poll(Done& done) override {
    if (!inner_.poll(done)) return false;
    executions_.push_back({done.task, iteration_, stage_, done.slot, done.whole, done.started, done.ended});
    audit_.ended(done, done.task.pass == Pass::WeightGrad || done.whole || forward_only_);
    return true;
  }

 private:
  Executor& inner_;
  Audit& audit_;
  StageId stage_;
  std::vector<Execution>& executions_;
  std::uint64_t iteration_ = 0;
  bool forward_only_ = false;
};

class StaggeredWorld::AuditedTransport final : public Transport {
 public:
  AuditedTransport(Transport& inner, Audit& audit, const Pipeline& pipeline)
      : inner_(inner), audit_(audit), pipeline_(pipeline) {}

  bool poll(Offer& offer) override { return inner_.poll(offer); }
  bool poll(Arrival& arrival) override { return inner_.poll(arrival); }
  [[nodiscard]] Time next_deadline() const override { return inner_.next_deadline(); }

  void accept(const Offer& offer, Slot slot) override {
    const Edge& edge = pipeline_.edges()[offer.id.edge];
    if (offer.id.direction == Direction::Activation) {
      audit_.take(edge.to, offer.id.microbatch, slot);
    } else {
      audit_.use(edge.from, offer.id.microbatch, slot);
    }
    inner_.accept(offer, slot);
  }

  void send(const MessageId& id, Slot slot) override {
    audit_.sent(id, slot);
    inner_.send(id, slot);
  }

  bool poll(SendDone& done) override {
    if (!inner_.poll(done)) return false;
    audit_.send_done(done);
    return true;
  }

 private:
  Transport& inner_;
  Audit& audit_;
  const Pipeline& pipeline_;
};

struct StaggeredWorld::Rank {
  Rank(const Pipeline& pipeline, const sim::StageSetup& setup, const DispatcherConfig& config,
       std::uint32_t member, sim::SimDevice& device, sim::VirtualClock& clock, Transport& endpoint,
       std::unique_ptr<Agreement> agrees, std::vector<Execution>& executions)
      : audit(pipeline, config.stage),
        simulated(device, member),
        executor(simulated, audit, config.stage, executions),
        transport(endpoint, audit, pipeline),
        agreement(std::move(agrees)),
        dispatcher(pipeline, config, setup.policy, {executor, transport, *agreement, clock}) {}

  Audit audit;
  sim::SimExecutor simulated;
  AuditedExecutor executor;
  AuditedTransport transport;
  std::unique_ptr<Agreement> agreement;
  Dispatcher dispatcher;
  std::size_t next = 0;
};

StaggeredWorld::StaggeredWorld(const Pipeline& pipeline, std::vector<sim::StageSetup> setups,
                               sim::Surroundings surroundings, const AgreementOf& agreement_of)
    : members_(surroundings.group.size),
      network_(pipeline, clock_, timetable_, surroundings.message_delay, members_) {
  for (const sim::StageSetup& setup : setups) {
    const StageId stage = setup.config.stage;
    const std::uint32_t first_rank = stage * members_;
    devices_.push_back(std::make_unique<sim::SimDevice>(
        first_rank, members_, clock_, timetable_, surroundings.task_time, surroundings.depth, Duration{0}));
    channels_.push_back(std::make_unique<sim::SimChannels>(members_, first_rank, clock_, timetable_,
                                                           surroundings.agreement_delay));
    const StageTasks tasks(pipeline, stage);
    for (std::uint32_t member = 0; member < members_; ++member) {
      DispatcherConfig config = setup.config;
      config.rank = first_rank + member;
      const auto form = surroundings.group.form;
      auto agreement = form ? agree::make_agreement(*form, tasks, channels_.back()->channel(member), clock_)
                            : agreement_of(stage);
      others_.emplace_back();
      ranks_.push_back(std::make_unique<Rank>(pipeline, setup, config, member, *devices_.back(), clock_,
                                              network_.endpoint(stage, member), std::move(agreement),
                                              member == 0 ? record_.executions : others_.back()));
    }
  }
}

StaggeredWorld::~StaggeredWorld() = default;

const Dispatcher& StaggeredWorld::dispatcher(StageId stage, std::uint32_t member) const {
  return ranks_[std::size_t{stage} * members_ + member]->dispatcher;
}

void StaggeredWorld::advance(Rank& rank, std::span<const Iteration> iterations) {
  while (true) {
    while (rank.dispatcher.progress()) {
    }
    if (!rank.dispatcher.finished() || rank.next == iterations.size()) return;
    rank.dispatcher.begin(iterations[rank.next++]);
  }
}

Record StaggeredWorld::run(std::span<const Iteration> iterations) {
  for (std::uint32_t stage = 0; stage < ranks_.size(); ++stage) timetable_.add(clock_.now(), stage);
  while (!timetable_.empty()) {
    clock_.advance_to(timetable_.next_time());
    advance(*ranks_[timetable_.pop()], iterations);
  }
  check_ended(iterations);
  for (StageId stage = 0; stage < devices_.size(); ++stage) {
    const auto log = dispatcher(stage).log().decisions();
    record_.logs.emplace_back(log.begin(), log.end());
    record_.slots.push_back(dispatcher(stage).slots());
    record_.agreements.emplace_back();
    compare_members(stage);
  }
  return std::move(record_);
}

void StaggeredWorld::check_ended(std::span<const Iteration> iterations) const {
  std::string stuck;
  for (const auto& rank : ranks_) {
    if (!rank->dispatcher.finished() || rank->next < iterations.size())
      stuck += rank->dispatcher.waiting_report() + "\n";
  }
  if (!stuck.empty()) throw StallError(stuck);
}

void StaggeredWorld::compare_members(StageId stage) {
  for (std::uint32_t member = 0; member < members_; ++member) {
    const Rank& rank = *ranks_[std::size_t{stage} * members_ + member];
    const std::vector<std::string>& faults = rank.audit.faults;
    record_.slot_faults.insert(record_.slot_faults.end(), faults.begin(), faults.end());
    record_.agreements[stage].push_back(rank.agreement->statistics());
    const auto log = rank.dispatcher.log().decisions();
    const std::vector<Decision>& first = record_.logs[stage];
    const bool same = std::equal(
        log.begin(), log.end(), first.begin(), first.end(), [](const Decision& a, const Decision& b) {
          return a.task == b.task && a.iteration == b.iteration && a.whole == b.whole;
        });
    if (!same) {
      record_.slot_faults.push_back("stage " + std::to_string(stage) + ": member " + std::to_string(member) +
                                    " ran another sequence than member 0");
    }
  }
}

}  // namespace sluice::test
