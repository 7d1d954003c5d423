#include "sluice/sim/world.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "sluice/error.hpp"

namespace sluice::sim {

World::World(const Pipeline& pipeline, std::vector<StageSetup> setups, Surroundings surroundings)
    : network_(pipeline, clock_, timetable_, std::move(surroundings.message_delay)) {
  if (setups.size() != pipeline.stages()) {
    throw ConfigError("stages", std::to_string(setups.size()) + " setups for " +
                                    std::to_string(pipeline.stages()) + " stages");
  }
  for (StageSetup& setup : setups) {
    const StageId stage = setup.config.stage;
    ranks_.push_back(std::make_unique<Rank>(
        Rank{SimExecutor(stage, clock_, timetable_, surroundings.task_time, surroundings.depth), SingleRank(),
             nullptr}));
    Rank& rank = *ranks_.back();
    rank.dispatcher =
        std::make_unique<Dispatcher>(pipeline, setup.config, std::move(setup.policy),
                                     Seams{rank.executor, network_.endpoint(stage), rank.agreement, clock_});
  }
}

Duration World::run(const Iteration& iteration) {
  const Time started = clock_.now();
  timetable_.clear();
  for (std::uint32_t stage = 0; stage < ranks_.size(); ++stage) {
    ranks_[stage]->dispatcher->begin(iteration);
    timetable_.add(started, stage);
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
  return ended - started;
}

void World::report_stall() const {
  std::string report = "the simulated pipeline is stuck";
  for (const auto& rank : ranks_) {
    if (!rank->dispatcher->finished()) report += "\n" + rank->dispatcher->waiting_report();
  }
  throw StallError(report);
}

}  // namespace sluice::sim
