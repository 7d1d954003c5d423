#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "sluice/dispatcher.hpp"
#include "sluice/sim/sim_executor.hpp"
#include "sluice/sim/sim_network.hpp"
#include "sluice/sim/timetable.hpp"

namespace sluice::sim {

/// What surrounds the dispatchers of a simulated run.
struct Surroundings {
  TaskTime task_time;
  MessageDelay message_delay = [](const MessageId&) { return Duration{0}; };
  std::uint32_t depth = 1;
};

/// The configuration of a stage's dispatcher, and what it decides by.
struct StageSetup {
  DispatcherConfig config;
  Policy policy;
};

/// A pipeline run in virtual time: the runtime's dispatchers on simulated seams. Nothing here decides
/// what runs.
class World {
 public:
  /// @param pipeline outlives the world
  /// @param setups one a stage
  World(const Pipeline& pipeline, std::vector<StageSetup> setups, Surroundings surroundings);

  /// Runs one iteration to its end.
  /// @return its makespan
  /// @throws StallError with what every unfinished rank waits for if nothing can happen any more
  Duration run(const Iteration& iteration);

  [[nodiscard]] const Dispatcher& dispatcher(StageId stage) const { return *ranks_[stage]->dispatcher; }
  [[nodiscard]] Dispatcher& dispatcher(StageId stage) { return *ranks_[stage]->dispatcher; }
  /// Called after every progress() that did something.
  void on_progress(std::function<void(Dispatcher&)> hook) { hook_ = std::move(hook); }

 private:
  struct Rank {
    SimExecutor executor;
    SingleRank agreement;
    std::unique_ptr<Dispatcher> dispatcher;
  };

  [[noreturn]] void report_stall() const;

  VirtualClock clock_;
  Timetable timetable_;
  SimNetwork network_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::function<void(Dispatcher&)> hook_;
};

}  // namespace sluice::sim
