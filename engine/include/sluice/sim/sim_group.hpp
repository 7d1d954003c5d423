#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sluice/agree/common_tasks.hpp"
#include "sluice/agreement.hpp"
#include "sluice/sim/sim_executor.hpp"
#include "sluice/sim/timetable.hpp"
#include "sluice/stage_tasks.hpp"

namespace sluice::sim {

/// How the ranks of a group settle on a task.
enum class GroupRule : std::uint8_t {
  /// The arbiter's best among the tasks runnable on every rank.
  CommonCandidate,
  /// The published rule: each rank names its first pick; unless all are equal nobody runs, and the ranks
  /// try again when a pick has changed.
  FirstPick,
};

/// A model of the agreement of one group in simulated time: an attempt needs every rank and takes a fixed
/// latency. All ranks are in one iteration: the first one's `begin` begins it for all.
///
/// The choice itself is core's Arbiter's, over what the ranks have announced.
class SimGroup {
 public:
  /// @param first_rank number of the group's first rank in the timetable; the others follow
  /// @param latency from an attempt's last contribution to its decision
  /// @param device if given, agreeing while it computes costs no time; outlives the group
  SimGroup(const StageTasks& tasks, std::uint32_t members, GroupRule rule, Duration latency,
           std::uint32_t first_rank, const Clock& clock, Timetable& timetable,
           const SimDevice* device = nullptr);
  ~SimGroup();
  SimGroup(const SimGroup&) = delete;
  SimGroup& operator=(const SimGroup&) = delete;

  [[nodiscard]] Agreement& endpoint(std::uint32_t member);

  /// Time since the first member began an iteration in which the device stood, the group could have run
  /// something and was still agreeing.
  [[nodiscard]] Duration agreeing() const noexcept { return agreeing_; }
  /// Attempts since then that decided nothing.
  [[nodiscard]] std::uint64_t deferred() const noexcept { return deferred_; }
  [[nodiscard]] std::uint64_t decisions() const noexcept { return decisions_; }

 private:
  class Endpoint;

  struct Member {
    std::unique_ptr<Endpoint> endpoint;
    /// Has contributed to the open attempt.
    bool joined = false;
    /// Has the last decision.
    bool taken = true;
    /// The pick it contributed.
    std::optional<Task> proposal;
  };

  void begin(const Arbiter& arbiter);
  void announce(std::uint32_t member, std::span<const RunnableChange> changes);
  [[nodiscard]] std::optional<Task> poll(std::uint32_t member, const Arbiter& arbiter, PassMask allowed);
  [[nodiscard]] std::optional<Task> take(Member& member);
  void note_willingness();
  void open();
  void join(std::uint32_t number);
  [[nodiscard]] std::optional<Task> equal_proposal() const;
  void decide(const Task& task);
  void ring(Time at);

  agree::CommonTasks common_;
  GroupRule rule_;
  Duration latency_;
  std::uint32_t first_rank_;
  const Clock& clock_;
  Timetable& timetable_;
  const SimDevice* device_;
  std::vector<Member> members_;
  /// By member.
  std::vector<agree::Ask> asks_;
  std::optional<Task> decision_;
  Time decided_at_{0};
  /// An attempt waits for ranks to join.
  bool open_ = false;
  /// The channel is in use by an attempt that will decide nothing.
  Time busy_until_{0};
  /// Something has changed since the last attempt was opened.
  bool changed_ = true;
  /// Since when every rank has had something to run.
  Time willing_since_ = kNever;
  Duration agreeing_{0};
  std::uint64_t deferred_ = 0;
  std::uint64_t decisions_ = 0;
};

}  // namespace sluice::sim
