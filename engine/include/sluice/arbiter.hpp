#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "sluice/hint.hpp"
#include "sluice/ready_set.hpp"
#include "sluice/stage_tasks.hpp"

namespace sluice {

/// A set of passes, one bit each.
using PassMask = std::uint8_t;
inline constexpr PassMask kAllPasses = (1U << kPasses) - 1;
[[nodiscard]] constexpr PassMask mask_of(Pass pass) noexcept {
  return static_cast<PassMask>(1U << static_cast<unsigned>(pass));
}

/// Runnable tasks and the state of the round: says which task comes next.
///
/// Asking changes nothing, so ranks of a group may ask different numbers of times; only a decision
/// advances the round.
class Arbiter {
 public:
  /// @param round_passes passes whose decisions move the round on; a weight gradient on a lane of its
  ///        own takes no turn of the others
  Arbiter(const StageTasks& tasks, Hint hint, PassMask round_passes = kAllPasses);

  /// An empty runnable set and the first round.
  void begin() noexcept;

  void insert(const Task& task) noexcept {
    if (set_of(task.pass).insert(rank(task))) ++runnable_[static_cast<std::size_t>(task.pass)];
  }
  void erase(const Task& task) noexcept {
    if (set_of(task.pass).erase(rank(task))) --runnable_[static_cast<std::size_t>(task.pass)];
  }
  [[nodiscard]] bool contains(const Task& task) const noexcept {
    return sets_[hint_.class_of(task.pass)].contains(rank(task));
  }
  [[nodiscard]] std::uint32_t runnable(Pass pass) const noexcept {
    return runnable_[static_cast<std::size_t>(pass)];
  }
  [[nodiscard]] const Hint& hint() const noexcept { return hint_; }

  /// While the limit binds on a stage of several chunks only `task` may run, and weight gradients
  /// while it is awaited.
  void focus_on(std::optional<Task> task) noexcept {
    focusing_ = true;
    focus_ = task;
  }
  void clear_focus() noexcept { focusing_ = false; }
  [[nodiscard]] bool focusing() const noexcept { return focusing_; }
  /// The task of `focus_on`; only while focusing.
  [[nodiscard]] std::optional<Task> focus() const noexcept { return focus_; }

  /// The best runnable task among the allowed passes, by the hint and the round.
  [[nodiscard]] std::optional<Task> candidate(PassMask allowed = kAllPasses) const noexcept;

  /// The task was chosen, here or by the group: it leaves the set and the round moves on.
  void decided(const Task& task) noexcept {
    erase(task);
    if ((mask_of(task.pass) & round_passes_) != 0) second_half_ = hint_.class_of(task.pass) == 0;
  }

 private:
  [[nodiscard]] ReadySet& set_of(Pass pass) noexcept { return sets_[hint_.class_of(pass)]; }
  [[nodiscard]] std::uint32_t rank(const Task& task) const noexcept {
    return hint_.rank(task.pass, tasks_.index(task.chunk, task.microbatch));
  }
  [[nodiscard]] std::optional<Task> first(std::uint32_t cls, PassMask allowed) const noexcept;
  [[nodiscard]] std::optional<Task> focused(PassMask allowed) const noexcept;

  StageTasks tasks_;
  Hint hint_;
  PassMask round_passes_;
  std::array<ReadySet, Hint::kClasses> sets_;
  std::array<PassMask, Hint::kClasses> passes_{};
  std::array<std::uint32_t, kPasses> runnable_{};
  /// The round's first class has had its turn.
  bool second_half_ = false;
  bool focusing_ = false;
  std::optional<Task> focus_;
};

}  // namespace sluice
