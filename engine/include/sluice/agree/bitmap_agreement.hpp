#pragma once

#include <cstdint>
#include <vector>

#include "sluice/agree/attempt_agreement.hpp"
#include "sluice/agree/common_tasks.hpp"
#include "sluice/agree/task_set.hpp"

namespace sluice::agree {

/// Common candidate without a leader: every rank contributes all that is runnable on it, an all-gather of
/// one bit a task, and all run the same arbiter on what they have in common. If the contributions to an
/// attempt share a task that all allow, the attempt decides.
class BitmapAgreement final : public AttemptAgreement {
 public:
  /// @param channel,clock outlive the agreement
  BitmapAgreement(const StageTasks& tasks, GroupChannel& channel, const Clock& clock);

  [[nodiscard]] static ChannelNeeds needs(const StageTasks& tasks);

  void begin(const Iteration& iteration, const Arbiter& arbiter) override;
  void announce(std::span<const RunnableChange> changes) override;

 private:
  [[nodiscard]] bool contributes(bool rung, const Ask& ask, const Ask* last) const override;
  void take(std::uint32_t from, std::uint64_t attempt, std::span<const std::byte> more) override;
  [[nodiscard]] std::span<const std::byte> contribute() override;
  [[nodiscard]] Time stands_since() const override;
  [[nodiscard]] std::optional<Task> choose() override;
  [[nodiscard]] bool picks_differed(const Task& task) const override;

  [[nodiscard]] std::span<std::uint64_t> snapshot(std::uint32_t member, std::uint64_t attempt);

  CommonTasks common_;
  TaskSet own_;
  /// By attempt's parity and member.
  std::vector<std::uint64_t> snapshots_;
  std::vector<Ask> asks_;
  /// `own_` is not what was contributed last.
  bool changed_ = false;
  Time changed_at_{0};
};

}  // namespace sluice::agree
