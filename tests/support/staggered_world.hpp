#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/dispatcher.hpp"
#include "sluice/sim/sim_channel.hpp"
#include "sluice/sim/sim_executor.hpp"
#include "sluice/sim/sim_network.hpp"
#include "sluice/sim/timetable.hpp"
#include "sluice/sim/world.hpp"

namespace sluice::test {

/// A task that has run, and when.
struct Execution {
  Task task;
  std::uint64_t iteration = 0;
  StageId stage = 0;
  Slot slot = kNoSlot;
  bool whole = false;
  Time started{};
  Time ended{};
};

/// Everything a run did, each list in the order in which it happened. Of a group, what its first member ran;
/// that the others ran the same is checked.
struct Record {
  std::vector<Execution> executions;
  /// What went wrong with a slot, one line each: two owners at once, a use without ownership; and members
  /// of a group that ran different tasks.
  std::vector<std::string> slot_faults;
  std::vector<std::vector<Decision>> logs;
  std::vector<std::uint32_t> slots;
  /// By stage, what the agreements of its group counted, one a member.
  std::vector<std::vector<AgreementStatistics>> agreements;
};

using AgreementOf = std::function<std::unique_ptr<Agreement>(StageId)>;

/// Ranks that go from one iteration to the next at their own pace, as processes do, so that a neighbour
/// may be an iteration ahead. Checks the ownership of slots on the way. Where the surroundings give the
/// group a form of agreement, the ranks of a stage agree by it over simulated channels.
class StaggeredWorld {
 public:
  StaggeredWorld(
      const Pipeline& pipeline, std::vector<sim::StageSetup> setups, sim::Surroundings surroundings,
      const AgreementOf& agreement_of = [](StageId) { return std::make_unique<SingleRank>(); });
  ~StaggeredWorld();

  /// @throws StallError if nothing can happen any more before every rank has finished
  Record run(std::span<const Iteration> iterations);

  [[nodiscard]] const Dispatcher& dispatcher(StageId stage, std::uint32_t member = 0) const;

 private:
  class Audit;
  class AuditedExecutor;
  class AuditedTransport;
  struct Rank;

  void advance(Rank& rank, std::span<const Iteration> iterations);
  void check_ended(std::span<const Iteration> iterations) const;
  void compare_members(StageId stage);

  std::uint32_t members_;
  Record record_;
  /// What the members but the first of each group ran.
  std::deque<std::vector<Execution>> others_;
  sim::VirtualClock clock_;
  sim::Timetable timetable_;
  sim::SimNetwork network_;
  /// By stage.
  std::vector<std::unique_ptr<sim::SimDevice>> devices_;
  std::vector<std::unique_ptr<sim::SimChannels>> channels_;
  /// By stage, then member.
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace sluice::test
