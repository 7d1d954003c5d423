#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sluice/agree/attempts.hpp"
#include "sluice/agree/common_tasks.hpp"
#include "sluice/agree/group_agreement.hpp"

namespace sluice::agree {

/// Agreement without a leader, by numbered attempts: every member sends the others its contribution, and
/// whoever has all of them knows the outcome. A first contribution opens an attempt and rings the others,
/// who join at their next poll, changed or not. If nothing is decided, the next attempt is opened by a
/// member whose contribution would now be another one.
class AttemptAgreement : public GroupAgreement {
 public:
  void begin(const Iteration& iteration, const Arbiter& arbiter) override;
  /// @throws ProtocolError naming the member whose message cannot belong to the group's iteration
  [[nodiscard]] std::optional<Task> poll(const Arbiter& arbiter, PassMask allowed) override;

 protected:
  struct Contribution {
    std::uint64_t iteration = 0;
    Time since{0};
    Ask ask;
  };

  /// @param more bytes that follow the fields of a contribution
  AttemptAgreement(const StageTasks& tasks, GroupChannel& channel, const Clock& clock, MessageKind kind,
                   std::size_t more);

  [[nodiscard]] const Attempts& attempts() const noexcept { return attempts_; }
  /// To the current attempt.
  [[nodiscard]] const Contribution& contribution(std::uint32_t member) const noexcept {
    return contributions_[at(member, attempts_.current())];
  }
  /// Place of a member's contribution to an attempt; two attempts have places of their own.
  [[nodiscard]] std::size_t at(std::uint32_t member, std::uint64_t attempt) const noexcept {
    return static_cast<std::size_t>(attempt % 2) * members() + member;
  }
  /// Deferrals since the last decision.
  [[nodiscard]] std::uint64_t deferred() const noexcept { return deferred_; }

  /// Whether the rank contributes.
  /// @param rung a peer has opened the attempt
  /// @param last what this rank contributed last since the last decision; null if nothing
  [[nodiscard]] virtual bool contributes(bool rung, const Ask& ask, const Ask* last) const = 0;
  /// Keeps what follows the fields of a contribution.
  virtual void take(std::uint32_t from, std::uint64_t attempt, std::span<const std::byte> more) = 0;
  /// What follows the fields of this rank's.
  [[nodiscard]] virtual std::span<const std::byte> contribute() = 0;
  /// Since when this rank's contribution stands.
  [[nodiscard]] virtual Time stands_since() const = 0;
  /// Whether the outcome of the current attempt, which is complete, can be told yet.
  [[nodiscard]] virtual bool outcome_known() { return true; }
  /// The outcome of the current attempt, which is known.
  [[nodiscard]] virtual std::optional<Task> choose() = 0;
  /// First picks differed before the task was chosen.
  [[nodiscard]] virtual bool picks_differed(const Task& task) const = 0;

 private:
  void take_all();
  void check_iterations() const;
  [[nodiscard]] bool rung() const;
  void join(const Ask& ask);
  [[nodiscard]] std::optional<Task> conclude();

  MessageKind kind_;
  std::size_t more_;
  Attempts attempts_;
  std::vector<Contribution> contributions_;
  std::vector<std::byte> message_;
  /// It has contributed since the last decision, and what.
  bool spoke_ = false;
  Ask said_;
  std::uint64_t deferred_ = 0;
};

}  // namespace sluice::agree
