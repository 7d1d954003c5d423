#pragma once

#include <cstdint>
#include <vector>

#include "sluice/agree/common_tasks.hpp"
#include "sluice/agree/snapshot_agreement.hpp"
#include "sluice/agree/task_set.hpp"

namespace sluice::agree {

/// Common candidate without a leader: every rank contributes all that is runnable on it, an all-gather of
/// one bit a task, and all run the same arbiter on what they have in common. If the contributions to an
/// attempt share a task that all allow, the attempt decides.
class BitmapAgreement final : public SnapshotAgreement {
 public:
  /// @param channel,clock outlive the agreement
  BitmapAgreement(const StageTasks& tasks, GroupChannel& channel, const Clock& clock);

  [[nodiscard]] static ChannelNeeds needs(const StageTasks& tasks);

  void begin(const Iteration& iteration, const Arbiter& arbiter) override;

 private:
  void change(const RunnableChange& change) override;
  void take(std::uint32_t from, std::uint64_t attempt, std::span<const std::byte> more) override;
  [[nodiscard]] std::span<const std::byte> snapshot() override;
  [[nodiscard]] std::optional<Task> choose() override;

  [[nodiscard]] std::span<std::uint64_t> words_of(std::uint32_t member, std::uint64_t attempt);

  CommonTasks common_;
  TaskSet own_;
  /// By attempt's parity and member.
  std::vector<std::uint64_t> snapshots_;
  std::vector<Ask> asks_;
};

}  // namespace sluice::agree
