#pragma once

#include <array>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "sluice/agreement.hpp"
#include "sluice/executor.hpp"
#include "sluice/iteration.hpp"

namespace sluice::test {

/// The digest's arbitration, read literally: the hint's list is scanned from its start for the first
/// task that is runnable. Keeps its own round, and its own account of the focus microbatch.
class NaiveArbiter {
 public:
  /// @param lanes of each pass: a weight gradient on a lane of its own takes no turn
  NaiveArbiter(const Pipeline& pipeline, StageId stage, Hint hint, const std::array<Lane, kPasses>& lanes);

  void begin(IterationKind kind);
  void set_runnable(const Task& task, bool runnable);
  [[nodiscard]] const std::set<Task>& runnable() const { return runnable_; }
  /// @param at_limit the limit binds and the stage has several chunks
  [[nodiscard]] std::optional<Task> choose(PassMask allowed, bool at_limit) const;
  void ran(const Task& task);

 private:
  [[nodiscard]] std::optional<Task> scan(std::span<const std::uint32_t> classes, PassMask allowed) const;
  [[nodiscard]] std::optional<Task> focus() const;

  std::vector<Chunk> chunks_;
  Microbatch microbatches_;
  Hint hint_;
  bool weight_grads_apart_;
  IterationKind kind_ = IterationKind::Training;
  std::set<Task> runnable_;
  std::set<Task> launched_;
  /// The class whose turn in the round it is: 0 or 1.
  std::uint32_t turn_ = 0;
};

/// A rank on its own whose every decision is compared with the naive arbiter's.
class ComparedAgreement final : public Agreement {
 public:
  ComparedAgreement(NaiveArbiter naive, std::vector<std::string>& differences)
      : naive_(std::move(naive)), differences_(differences) {}

  void begin(const Iteration& iteration, const Arbiter& arbiter) override;
  void announce(std::span<const RunnableChange> changes) override;
  [[nodiscard]] std::optional<Task> poll(const Arbiter& arbiter, PassMask allowed) override;

 private:
  NaiveArbiter naive_;
  std::vector<std::string>& differences_;
};

}  // namespace sluice::test
