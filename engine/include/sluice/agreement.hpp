#pragma once

#include <optional>
#include <span>

#include "sluice/arbiter.hpp"

namespace sluice {

/// A task that became runnable on this rank, or ceased to be without having run.
struct RunnableChange {
  Task task;
  bool runnable = false;
};

/// How the ranks of a group settle on the same next task. No call blocks.
class Agreement {
 public:
  virtual ~Agreement() = default;

  /// What changed in this rank's runnable set since the last announcement, in order.
  virtual void announce(std::span<const RunnableChange> changes) = 0;

  /// The next task every rank of the group runs, if one is decided. A decision is final.
  /// @param arbiter this rank's runnable tasks and round
  /// @param allowed passes whose lane has room here
  [[nodiscard]] virtual std::optional<Task> poll(const Arbiter& arbiter, PassMask allowed) = 0;
};

/// A rank that agrees with nobody: its own candidate is the decision.
class SingleRank final : public Agreement {
 public:
  void announce(std::span<const RunnableChange> /*changes*/) override {}
  [[nodiscard]] std::optional<Task> poll(const Arbiter& arbiter, PassMask allowed) override {
    return arbiter.candidate(allowed);
  }
};

}  // namespace sluice
