#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/pipeline.hpp"
#include "sluice/task.hpp"

namespace sluice {

/// A fixed order of tasks for each stage.
///
/// A Backward is whole (it includes the weight gradients) where the schedule has no WeightGrad for
/// the same chunk and microbatch, and an input gradient otherwise.
class Schedule {
 public:
  /// @param orders one sequence a stage
  Schedule(std::string name, std::vector<std::vector<Task>> orders);

  /// `gpipe`, `1f1b`, `interleaved` or `zb-h1`.
  /// @throws ConfigError naming `schedule` for an unknown name or a pipeline the schedule does not fit
  static Schedule named(std::string_view name, const Pipeline& pipeline);
  [[nodiscard]] static std::span<const std::string_view> names() noexcept;

  /// All forwards, then all backwards, in microbatch order (Huang et al., 2019). Any pipeline.
  static Schedule gpipe(const Pipeline& pipeline);
  /// One forward, one backward after a warm-up as long as the way to the last chunk (Narayanan et
  /// al., 2019). One chunk a stage.
  static Schedule one_f_one_b(const Pipeline& pipeline);
  /// Interleaved 1F1B (Narayanan et al., 2021). Chunk c on stage c mod stages.
  static Schedule interleaved(const Pipeline& pipeline);
  /// ZB-H1 (Qi et al., 2023): 1F1B with weight gradients put off while memory stays that of 1F1B.
  /// One chunk a stage.
  static Schedule zb_h1(const Pipeline& pipeline);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::uint32_t stages() const noexcept { return static_cast<std::uint32_t>(orders_.size()); }
  [[nodiscard]] std::span<const Task> order(StageId stage) const { return orders_[stage]; }

  /// Every task of the pipeline once, on its stage, and the orders can be executed together.
  /// @throws ConfigError naming `schedule`, the rank and the position of the first fault
  void validate(const Pipeline& pipeline) const;

  /// The same schedule with weight gradients accumulated in microbatch order: a backward out of turn
  /// becomes an input gradient, and its WeightGrad follows as soon as it is in turn.
  /// @throws ConfigError where that needs to split a chunk that cannot be split
  [[nodiscard]] Schedule with_ordered_accumulation(const Pipeline& pipeline) const;

  /// Most (chunk, microbatch) pairs between their forward and their last pass on the stage.
  [[nodiscard]] std::uint32_t peak_in_flight(const Pipeline& pipeline, StageId stage) const;

 private:
  std::string name_;
  std::vector<std::vector<Task>> orders_;
};

}  // namespace sluice
