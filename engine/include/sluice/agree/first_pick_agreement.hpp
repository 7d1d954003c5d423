#pragma once

#include "sluice/agree/attempt_agreement.hpp"

namespace sluice::agree {

/// The published rule: every rank names its first pick, an all-gather of one task. Where all are equal it
/// runs; otherwise nobody runs and nothing advances. A rank without a pick joins once it has one.
///
/// It needs the published rules. With admission bounded by the limit, ranks that have let in different
/// microbatches may never name the same one.
class FirstPickAgreement final : public AttemptAgreement {
 public:
  /// @param channel,clock outlive the agreement
  FirstPickAgreement(const StageTasks& tasks, GroupChannel& channel, const Clock& clock);

  [[nodiscard]] static ChannelNeeds needs();

  void announce(std::span<const RunnableChange> /*changes*/) override {}

 private:
  [[nodiscard]] bool contributes(bool rung, const Ask& ask, const Ask* last) const override;
  void take(std::uint32_t /*from*/, std::uint64_t /*attempt*/, std::span<const std::byte> /*more*/) override {
  }
  [[nodiscard]] std::span<const std::byte> contribute() override { return {}; }
  [[nodiscard]] Time stands_since() const override { return asked_since(); }
  [[nodiscard]] std::optional<Task> choose() override;
  [[nodiscard]] bool picks_differed(const Task& /*task*/) const override { return deferred() > 0; }
};

}  // namespace sluice::agree
