#include "sluice/sim/world.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "sluice/error.hpp"

namespace sluice::sim {

struct World::Stage {
  SimDevice device;
  /// Only where several ranks have to agree.
  std::unique_ptr<SimGroup> group;
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
              {}}));
    Stage& stage = *stages_.back();
    if (group.size > 1) {
      const StageTasks tasks(pipeline, id);
      // Ranks that follow one order have nothing to ask each other.
      const Duration latency = setup.policy.mode() == Mode::Readiness ? group.latency : Duration{0};
      stage.group = std::make_unique<SimGroup>(
          tasks, Arbiter(tasks, setup.policy.hint(), round_passes(setup.config)), group.size, group.rule,
          latency, first_rank, clock_, timetable_, &stage.device);
    }
    for (std::uint32_t member = 0; member < group.size; ++member) {
      ranks_.push_back(std::make_unique<Rank>(stage.device, member));
      Rank& rank = *ranks_.back();
      DispatcherConfig config = setup.config;
      config.rank = first_rank + member;
      // What a group records is what its first rank sees.
      if (member > 0) config.recorder = nullptr;
      Agreement& agreement = stage.group ? stage.group->endpoint(member) : rank.alone;
      rank.dispatcher = std::make_unique<Dispatcher>(
          pipeline, config, setup.policy,
          Seams{rank.executor, network_.endpoint(id, member), agreement, clock_});
    }
  }
}

World::~World() = default;

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
    if (stage->group) stage->group->begin();
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
  if (stages_[stage]->group) stages_[stage]->group->rank_by(dispatcher(stage).arbiter());
}

StageReport World::report(StageId stage) const {
  StageReport report;
  report.compute = stages_[stage]->device.busy();
  if (stages_[stage]->group) report.agreement = stages_[stage]->group->agreeing();
  report.blocked = makespan_ - report.compute - report.agreement;
  report.peak_in_flight = dispatcher(stage).peak_in_flight();
  return report;
}

void World::report_stall() const {
  std::string report = "the simulated pipeline is stuck";
  for (const auto& rank : ranks_) {
    if (!rank->dispatcher->finished()) report += "\n" + rank->dispatcher->waiting_report();
  }
  throw StallError(report);
}

}  // namespace sluice::sim
