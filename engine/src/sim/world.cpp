#include "sluice/sim/world.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "sluice/error.hpp"

namespace sluice::sim {

struct World::Stage {
  SimDevice device;
  /// One of them, where several ranks have to agree.
  std::unique_ptr<SimGroup> group;
  std::unique_ptr<MessageGroup> messages;
  std::vector<Done> ran;
};

struct World::Rank {
  Rank(SimDevice& device, std::uint32_t member) : executor(device, member) {}

  SimExecutor executor;
  SingleRank alone;
  std::unique_ptr<Dispatcher> dispatcher;
};

World::World(const Pipeline& pipeline, std::vector<StageSetup> setups, Surroundings surroundings)
    : surroundings_(std::move(surroundings)),
      network_(
          pipeline, clock_, timetable_,
          [this](Transit transit) {
            transit.compute_average =
                rank(transit.receiver, transit.member).executor.compute_average().value();
            return surroundings_.message_delay(transit) + surroundings_.overhead.hop;
          },
          surroundings_.group.size) {
  const GroupSettings& group = surroundings_.group;
  if (setups.size() != pipeline.stages()) {
    throw ConfigError("stages", std::to_string(setups.size()) + " setups for " +
                                    std::to_string(pipeline.stages()) + " stages");
  }
  for (StageId id = 0; id < pipeline.stages(); ++id) {
    const auto first_rank = static_cast<std::uint32_t>(ranks_.size());
    const StageSetup& setup = setups[id];
    stages_.push_back(std::make_unique<Stage>(
        Stage{SimDevice(first_rank, group.size, clock_, timetable_, surroundings_.task_time,
                        surroundings_.depth, surroundings_.overhead.task),
              nullptr,
              nullptr,
              {}}));
    Stage& stage = *stages_.back();
    if (group.size > 1) add_agreement(stage, StageTasks(pipeline, id), first_rank, setup.policy.mode());
    for (std::uint32_t member = 0; member < group.size; ++member) {
      ranks_.push_back(std::make_unique<Rank>(stage.device, member));
      Rank& rank = *ranks_.back();
      DispatcherConfig config = setup.config;
      config.rank = first_rank + member;
      // What a group records is what its first rank sees.
      if (member > 0) config.recorder = nullptr;
      Agreement& agreement = stage.messages ? stage.messages->endpoint(member)
                             : stage.group  ? stage.group->endpoint(member)
                                            : rank.alone;
      rank.dispatcher = std::make_unique<Dispatcher>(
          pipeline, config, setup.policy,
          Seams{rank.executor, network_.endpoint(id, member), agreement, clock_});
    }
  }
}

World::~World() = default;

void World::add_agreement(Stage& stage, const StageTasks& tasks, std::uint32_t first_rank, Mode mode) {
  const GroupSettings& group = surroundings_.group;
  // Ranks that follow one order have nothing to ask each other.
  const Duration latency = mode == Mode::Readiness ? group.latency : Duration{0};
  if (group.form) {
    HopDelay delay = surroundings_.agreement_delay;
    if (!delay) delay = [latency](std::uint32_t, std::uint32_t) { return latency; };
    stage.messages = std::make_unique<MessageGroup>(tasks, group.size, *group.form, std::move(delay),
                                                    first_rank, clock_, timetable_, stage.device);
  } else {
    stage.group = std::make_unique<SimGroup>(tasks, group.size, group.rule, latency, first_rank, clock_,
                                             timetable_, &stage.device);
  }
}

World::Rank& World::rank(StageId stage, std::uint32_t member) const {
  return *ranks_[std::size_t{stage} * surroundings_.group.size + member];
}

Dispatcher& World::dispatcher(StageId stage, std::uint32_t member) { return *rank(stage, member).dispatcher; }

const Dispatcher& World::dispatcher(StageId stage, std::uint32_t member) const {
  return *rank(stage, member).dispatcher;
}

void World::keep_runs() {
  for (StageId id = 0; id < stages_.size(); ++id) rank(id, 0).executor.keep(&stages_[id]->ran);
}

std::span<const Done> World::ran(StageId stage) const { return stages_[stage]->ran; }

Duration World::run(const Iteration& iteration) {
  const Time started = clock_.now();
  timetable_.clear();
  for (auto& stage : stages_) {
    stage->device.begin();
    stage->ran.clear();
  }
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    ranks_[rank]->dispatcher->begin(iteration);
    timetable_.add(started, rank);
  }
  Time ended = started;
  while (!timetable_.empty()) {
    clock_.advance_to(timetable_.next_time());
    Dispatcher& dispatcher = *ranks_[timetable_.pop()]->dispatcher;
    while (dispatcher.progress()) {
      ended = clock_.now();
      if (hook_) hook_(dispatcher);
    }
  }
  const bool finished = std::all_of(ranks_.begin(), ranks_.end(),
                                    [](const auto& rank) { return rank->dispatcher->finished(); });
  if (!finished) report_stall();
  makespan_ = ended - started;
  return makespan_;
}

void World::rank_by(StageId stage, const Hint& hint) {
  for (std::uint32_t member = 0; member < surroundings_.group.size; ++member)
    dispatcher(stage, member).rank_by(hint);
}

StageReport World::report(StageId stage) const {
  StageReport report;
  report.compute = stages_[stage]->device.busy();
  if (const SimGroup* group = stages_[stage]->group.get()) {
    report.agreement = group->agreeing();
    report.decisions = group->decisions();
    report.deferrals = group->deferred();
  } else if (const MessageGroup* messages = stages_[stage]->messages.get()) {
    const AgreementStatistics statistics = messages->statistics();
    report.agreement = messages->agreeing();
    report.decisions = statistics.decisions;
    report.deferrals = statistics.deferrals;
    report.picks_differed = statistics.picks_differed;
  }
  report.blocked = makespan_ - report.compute - report.agreement;
  report.peak_in_flight = dispatcher(stage).peak_in_flight();
  return report;
}

AgreementStatistics World::agreement_statistics(StageId stage, std::uint32_t member) const {
  return stages_[stage]->messages->statistics(member);
}

void World::report_stall() const {
  std::string report = "the simulated pipeline is stuck";
  for (const auto& rank : ranks_) {
    if (!rank->dispatcher->finished()) report += "\n" + rank->dispatcher->waiting_report();
  }
  throw StallError(report);
}

}  // namespace sluice::sim
