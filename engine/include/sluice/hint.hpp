#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/pipeline.hpp"
#include "sluice/schedule.hpp"
#include "sluice/stage_tasks.hpp"
#include "sluice/task.hpp"

namespace sluice {

/// How a rank goes from class to class.
enum class RoundRule : std::uint8_t {
  /// Each round takes one task of the first class if there is one, then one of the second if there
  /// is one; with neither, one of the third, and the next round starts.
  Rounds,
  /// Always the first class that has a task.
  Priority,
};

/// Ranks the tasks of one stage: a rank within a class for each task, and a rule over the classes.
///
/// Lower ranks come first. Immutable; cheap to copy. All ranks of a group hold the same hint.
class Hint {
 public:
  static constexpr std::size_t kClasses = 3;

  /// The tasks of the three classes in the order they should run. A class may be empty; every task
  /// of the stage is in exactly one class, and a pass in one class only.
  /// @throws ConfigError naming `hint` otherwise
  Hint(std::string name, const Pipeline& pipeline, StageId stage, RoundRule rule,
       const std::array<std::vector<Task>, kClasses>& classes);

  /// `bf`, `fb`, `b-priority`, `f-priority`, `bfw` or `pace`; `bfw` ranks as `bf` does, and both it and
  /// `pace` are meant for a pipeline whose backward is split.
  /// @throws ConfigError naming `hint` for an unknown name
  static Hint named(std::string_view name, const Pipeline& pipeline, StageId stage);
  [[nodiscard]] static std::span<const std::string_view> names() noexcept;

  /// Forwards and backwards in one class, in the order in which a steady pipeline without delays would
  /// meet them; weight gradients when there is neither. What lags behind that pace comes first, which
  /// keeps the time a microbatch is in flight short and even: the least slack first of Lu, Ramaswamy and
  /// Kumar ("Efficient scheduling policies to reduce mean and variance of cycle-time", 1994).
  static Hint pace(const Pipeline& pipeline, StageId stage);

  /// All tasks in one class, in the schedule's order; weight gradients it does not have come last.
  static Hint from_schedule(const Schedule& schedule, const Pipeline& pipeline, StageId stage);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] RoundRule rule() const noexcept { return rule_; }
  [[nodiscard]] std::uint32_t class_of(Pass pass) const noexcept {
    return class_of_[static_cast<std::size_t>(pass)];
  }
  [[nodiscard]] std::uint32_t class_size(std::uint32_t cls) const noexcept {
    return static_cast<std::uint32_t>(tables_->tasks[cls].size());
  }
  /// @param index the task's number in StageTasks
  [[nodiscard]] std::uint32_t rank(Pass pass, std::uint32_t index) const noexcept {
    return plain_ ? index : tables_->ranks[static_cast<std::size_t>(pass)][index];
  }
  [[nodiscard]] Task task(std::uint32_t cls, std::uint32_t rank) const noexcept {
    return plain_ ? Task{rank, plain_chunk_, plain_pass_[cls]} : tables_->tasks[cls][rank];
  }

 private:
  struct Tables {
    std::array<std::vector<std::uint32_t>, kPasses> ranks;
    std::array<std::vector<Task>, kClasses> tasks;
  };

  [[nodiscard]] bool ranks_by_microbatch() const noexcept;

  std::string name_;
  RoundRule rule_;
  /// One chunk, one pass a class, ranked by microbatch: the usual case, which needs no look-up and so
  /// costs the same for any number of microbatches.
  bool plain_ = false;
  Chunk plain_chunk_ = 0;
  std::array<Pass, kClasses> plain_pass_{};
  std::array<std::uint32_t, kPasses> class_of_{};
  std::shared_ptr<const Tables> tables_;
};

}  // namespace sluice
