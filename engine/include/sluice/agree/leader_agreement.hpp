#pragma once

#include <cstdint>
#include <vector>

#include "sluice/agree/common_tasks.hpp"
#include "sluice/agree/group_agreement.hpp"
#include "sluice/agree/task_set.hpp"

namespace sluice::agree {

/// Common candidate by leader: member 0 knows what is runnable on every member, and decides as soon as all
/// have asked and have a task in common that all allow. It looks again whenever it hears something new, so
/// nothing has to be tried again.
///
/// A task that a member withdraws may already be decided. That is harmless: only a source withdraws a task,
/// in favour of another one when the limit lets go, and both may then be launched.
class LeaderAgreement final : public GroupAgreement {
 public:
  /// @param channel,clock outlive the agreement
  LeaderAgreement(const StageTasks& tasks, GroupChannel& channel, const Clock& clock);

  [[nodiscard]] static ChannelNeeds needs(const StageTasks& tasks);

  void begin(const Iteration& iteration, const Arbiter& arbiter) override;
  void announce(std::span<const RunnableChange> changes) override;
  /// @throws ProtocolError naming the member whose message cannot belong to the group's iteration
  [[nodiscard]] std::optional<Task> poll(const Arbiter& arbiter, PassMask allowed) override;

 private:
  static constexpr std::uint32_t kLeader = 0;
  static constexpr std::size_t kMostPending = 256;

  /// What the leader knows of a member.
  struct Peer {
    /// When it sent its last message.
    Time at{0};
    /// What it has said of the iteration that begins next.
    bool ahead = false;
    Ask early_ask;
    TaskSet early;
  };

  [[nodiscard]] bool leads() const noexcept { return member() == kLeader; }

  [[nodiscard]] std::optional<Task> lead(const Arbiter& arbiter, PassMask allowed);
  void take(const Received& received);
  [[nodiscard]] bool stale(std::uint32_t from, const Header& header) const;
  void hold(std::uint32_t from, const AskMessage& message);
  [[nodiscard]] bool all_ask() const;
  void note_common();
  void broadcast(const Task& task, bool picks_differed);

  [[nodiscard]] std::optional<Task> follow(const Arbiter& arbiter, PassMask allowed);
  [[nodiscard]] std::optional<Task> receive_decision();
  void tell(const Ask& ask, bool asks);

  // The leader's.
  CommonTasks common_;
  std::vector<Ask> asks_;
  std::vector<Peer> peers_;
  /// Something was heard since the last look.
  bool changed_ = false;
  /// Since when a decision can be made.
  Time stands_from_ = kNever;
  std::uint32_t deferrals_ = 0;

  // A follower's.
  std::vector<RunnableChange> pending_;
  /// Whatever it has told to be runnable and is not decided, withdrawn or not.
  TaskSet told_;
  bool asked_ = false;
  Ask sent_;
};

}  // namespace sluice::agree
