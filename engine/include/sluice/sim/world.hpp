#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sluice/agree/form.hpp"
#include "sluice/dispatcher.hpp"
#include "sluice/sim/message_group.hpp"
#include "sluice/sim/sim_channel.hpp"
#include "sluice/sim/sim_executor.hpp"
#include "sluice/sim/sim_group.hpp"
#include "sluice/sim/sim_network.hpp"
#include "sluice/sim/timetable.hpp"

namespace sluice::sim {

/// The ranks that run each stage together (tensor parallelism): one dispatcher a rank.
struct GroupSettings {
  std::uint32_t size = 1;
  /// Of the model of an agreement.
  GroupRule rule = GroupRule::CommonCandidate;
  /// From an attempt's last contribution to its decision; of each message where there is a form.
  Duration latency{0};
  /// The runtime's own agreement, in place of the model.
  std::optional<agree::Form> form{};
};

/// What a runtime adds to the model of its devices and links.
struct Overhead {
  /// From the end of a task to the dispatcher having dealt with it.
  Duration task{0};
  /// From the sending of a message to its receiver having dealt with it.
  Duration hop{0};
};

/// What surrounds the dispatchers of a simulated run.
struct Surroundings {
  TaskTime task_time;
  MessageDelay message_delay = [](const Transit&) { return Duration{0}; };
  /// Launched tasks a device holds at once, the running one included.
  std::uint32_t depth = 1;
  GroupSettings group{};
  Overhead overhead{};
  /// What each message of an agreement takes, if not `group.latency`.
  HopDelay agreement_delay{};
};

/// The configuration of a stage's dispatchers, and what they decide by.
struct StageSetup {
  DispatcherConfig config;
  Policy policy;
};

/// One stage in the last iteration. The three times add up to the makespan.
struct StageReport {
  /// The device ran tasks.
  Duration compute{0};
  /// The ranks could have run something and were still agreeing on it.
  Duration agreement{0};
  /// The rest: waiting for messages, for the limit, or for the iteration to end.
  Duration blocked{0};
  std::uint32_t peak_in_flight = 0;
  /// Of a group: decisions, attempts that decided nothing, and, where the runtime's own agreement ran,
  /// decisions before which the ranks' first picks differed.
  std::uint64_t decisions = 0;
  std::uint64_t deferrals = 0;
  std::uint64_t picks_differed = 0;
};

/// A pipeline run in virtual time: the runtime's dispatchers on simulated seams. Nothing here decides
/// what runs.
class World {
 public:
  /// @param pipeline outlives the world
  /// @param setups one a stage; the ranks of a group are numbered `stage * size + member`
  /// @throws ConfigError naming `stages`, `group`, `launch-ahead` or what a dispatcher refuses
  World(const Pipeline& pipeline, std::vector<StageSetup> setups, Surroundings surroundings);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Runs one iteration to its end.
  /// @return its makespan
  /// @throws StallError with what every unfinished rank waits for if nothing can happen any more
  Duration run(const Iteration& iteration);

  /// The stage goes by another hint from the next iteration on.
  void rank_by(StageId stage, const Hint& hint);

  [[nodiscard]] StageReport report(StageId stage) const;
  /// What the runtime's own agreement counted in the last iteration.
  /// Precondition: the group has a form and several ranks.
  [[nodiscard]] AgreementStatistics agreement_statistics(StageId stage, std::uint32_t member) const;

  /// Keeps what the stages run, from the next iteration on.
  void keep_runs();
  /// What the stage ran in the last iteration, in the order seen; nothing unless kept.
  [[nodiscard]] std::span<const Done> ran(StageId stage) const;

  [[nodiscard]] const Dispatcher& dispatcher(StageId stage, std::uint32_t member = 0) const;
  [[nodiscard]] Dispatcher& dispatcher(StageId stage, std::uint32_t member = 0);
  /// Called after every progress() that did something.
  void on_progress(std::function<void(Dispatcher&)> hook) { hook_ = std::move(hook); }

 private:
  struct Stage;
  struct Rank;

  void add_agreement(Stage& stage, const StageTasks& tasks, std::uint32_t first_rank, Mode mode);
  [[nodiscard]] Rank& rank(StageId stage, std::uint32_t member) const;
  [[noreturn]] void report_stall() const;

  Surroundings surroundings_;
  VirtualClock clock_;
  Timetable timetable_;
  SimNetwork network_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  Duration makespan_{0};
  std::function<void(Dispatcher&)> hook_;
};

}  // namespace sluice::sim
