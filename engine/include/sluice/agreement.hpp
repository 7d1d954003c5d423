#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "sluice/arbiter.hpp"
#include "sluice/clock.hpp"
#include "sluice/iteration.hpp"

namespace sluice {

/// A task that became runnable on this rank, or ceased to be without having run.
struct RunnableChange {
  Task task;
  bool runnable = false;
};

/// What a group's agreeing took, since its agreement was built. All but `idle` are the same on every rank.
struct AgreementStatistics {
  std::uint64_t decisions = 0;
  /// Times that every rank had asked, and a choice was tried; those without one are deferrals.
  std::uint64_t attempts = 0;
  std::uint64_t deferrals = 0;
  /// Decisions before which the first pick of some rank, as it last named it, was another task.
  std::uint64_t picks_differed = 0;
  /// How long this rank's device stood although every rank had asked, they had a task in common and the
  /// decision had not come. It is counted from the latest of: the device's last task ended here; this rank
  /// asked; the last rank's runnable tasks became what the decision was made from, by the clock of that
  /// rank. Ranks of one host share their clock; between hosts an offset of the clocks shows in it, but
  /// never more than the time since this rank asked. First picks do not tell what the ranks have in
  /// common: there it is counted from when every rank first had a pick.
  Duration idle{0};
};

/// How the ranks of a group settle on the same next task. No call blocks.
class Agreement {
 public:
  virtual ~Agreement() = default;

  /// An iteration starts on this rank; others of the group may be in the one before or after.
  /// @param arbiter this rank's, with nothing runnable and in its first round: its hint is the group's
  virtual void begin(const Iteration& iteration, const Arbiter& arbiter) = 0;

  /// What changed in this rank's runnable set since the last announcement, in order.
  virtual void announce(std::span<const RunnableChange> changes) = 0;

  /// The next task every rank of the group runs, if one is decided. A decision is final.
  /// @param arbiter this rank's runnable tasks and round
  /// @param allowed passes whose lane has room here
  [[nodiscard]] virtual std::optional<Task> poll(const Arbiter& arbiter, PassMask allowed) = 0;

  /// When `poll` may next have an outcome although nobody notifies.
  [[nodiscard]] virtual Time next_deadline() const { return kNever; }

  /// Everything decided so far has run: the rank's device stands, since `since`.
  virtual void device_idle(Time /*since*/) {}

  [[nodiscard]] virtual AgreementStatistics statistics() const { return {}; }
};

/// A rank that agrees with nobody: its own candidate is the decision.
class SingleRank final : public Agreement {
 public:
  void begin(const Iteration& /*iteration*/, const Arbiter& /*arbiter*/) override {}
  void announce(std::span<const RunnableChange> /*changes*/) override {}
  [[nodiscard]] std::optional<Task> poll(const Arbiter& arbiter, PassMask allowed) override {
    return arbiter.candidate(allowed);
  }
};

}  // namespace sluice
