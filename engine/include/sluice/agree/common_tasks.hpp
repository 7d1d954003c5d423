#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sluice/agree/task_set.hpp"
#include "sluice/arbiter.hpp"

namespace sluice::agree {

/// What a rank says when it asks for a decision.
struct Ask {
  /// Passes whose lane has room.
  PassMask allowed = 0;
  /// As in Arbiter.
  bool focusing = false;
  std::optional<Task> focus;
  /// What it would run by itself.
  std::optional<Task> pick;

  friend bool operator==(const Ask&, const Ask&) = default;
};

[[nodiscard]] Ask ask_of(const Arbiter& arbiter, PassMask allowed);

/// Sets the focus of the group's arbiter. One member that is in focus puts the group in focus: all know the
/// same focus, but not all the limit at the same time.
/// @param asks one a member
/// @return the passes that all allow
[[nodiscard]] PassMask focus_group(Arbiter& arbiter, std::span<const Ask> asks);

/// The tasks that are runnable on every member of a group, and the arbiter that ranks them.
///
/// Its state advances with decisions alone, so that all who decide from the same sets hold the same.
class CommonTasks {
 public:
  CommonTasks(const StageTasks& tasks, std::uint32_t members);

  /// Nothing is runnable anywhere; nothing has been decided.
  /// @param arbiter of any member, with nothing runnable and in its first round
  void begin(const Arbiter& arbiter);

  /// Without effect if the task has been decided: a rank may withdraw it before it knows.
  void set(std::uint32_t member, const Task& task, bool runnable);
  /// Everything that is runnable on a member, in the words of a TaskSet of the stage.
  void assign(std::uint32_t member, std::span<const std::uint64_t> words);

  /// The arbiter's best task among those runnable on all members and allowed by all, in the group's focus.
  /// @param asks one a member
  [[nodiscard]] std::optional<Task> candidate(std::span<const Ask> asks);

  /// Precondition: `begin` was called.
  void decided(const Task& task);
  [[nodiscard]] bool was_decided(const Task& task) const noexcept { return decided_.contains(task); }

 private:
  StageTasks tasks_;
  std::optional<Arbiter> arbiter_;
  /// By member.
  std::vector<TaskSet> runnable_;
  /// On how many members each task is runnable, by pass and number.
  std::vector<std::uint32_t> members_with_;
  TaskSet decided_;
};

}  // namespace sluice::agree
