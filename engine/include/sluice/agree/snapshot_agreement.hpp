#pragma once

#include <cstdint>
#include <span>

#include "sluice/agree/attempt_agreement.hpp"

namespace sluice::agree {

/// Attempts to which every member contributes all that is runnable on it, so that an attempt decides if the
/// contributions share a task that all allow. A member whose tasks or ask have changed opens the next one.
class SnapshotAgreement : public AttemptAgreement {
 public:
  void begin(const Iteration& iteration, const Arbiter& arbiter) override;
  void announce(std::span<const RunnableChange> changes) final;

 protected:
  using AttemptAgreement::AttemptAgreement;

  virtual void change(const RunnableChange& change) = 0;
  /// What is runnable now goes into the current attempt.
  /// @return what follows the fields of this rank's contribution
  [[nodiscard]] virtual std::span<const std::byte> snapshot() = 0;

 private:
  [[nodiscard]] bool contributes(bool rung, const Ask& ask, const Ask* last) const final;
  [[nodiscard]] std::span<const std::byte> contribute() final;
  [[nodiscard]] Time stands_since() const final;
  [[nodiscard]] bool picks_differed(const Task& task) const final;

  /// What is runnable is not what was contributed last.
  bool changed_ = false;
  Time changed_at_{0};
};

}  // namespace sluice::agree
