#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/pipeline.hpp"
#include "sluice/task.hpp"

namespace sluice {

/// Where the chunks of a chain live.
enum class Placement : std::uint8_t {
  /// Chunk c on stage c mod stages: `Pipeline::interleaved`, or `chain` with one chunk a stage.
  Interleaved,
  /// Two chunks a stage, down the stages and back up: `Pipeline::v_shape`.
  V,
};

/// What is wrong with a schedule, and where.
struct ScheduleFault {
  StageId rank = 0;
  /// In the rank's order, from 0; the number of its tasks where one is missing.
  std::size_t position = 0;
  std::string reason;
};

/// `rank 1, position 3: reason`.
[[nodiscard]] std::string to_string(const ScheduleFault& fault);

/// A fixed order of tasks for each stage.
///
/// A Backward is whole (it includes the weight gradients) where the schedule has no WeightGrad for
/// the same chunk and microbatch, and an input gradient otherwise.
class Schedule {
 public:
  /// @param orders one sequence a stage
  Schedule(std::string name, std::vector<std::vector<Task>> orders);

  /// `gpipe`, `1f1b`, `interleaved`, `looped-bfs`, `zb-h1`, `zb-v` or `dualpipe-v`.
  /// @throws ConfigError naming `schedule` for an unknown name or a pipeline the schedule does not fit
  static Schedule named(std::string_view name, const Pipeline& pipeline);
  [[nodiscard]] static std::span<const std::string_view> names() noexcept;
  /// The placement a named schedule is made for; `gpipe` and `1f1b` take some others too.
  /// @throws ConfigError naming `schedule` for an unknown name
  [[nodiscard]] static Placement placement(std::string_view name);

  /// All forwards, then all backwards, in microbatch order (Huang et al., 2019). Any pipeline.
  static Schedule gpipe(const Pipeline& pipeline);
  /// One forward, one backward after a warm-up as long as the way to the last chunk (Narayanan et
  /// al., 2019). One chunk a stage.
  static Schedule one_f_one_b(const Pipeline& pipeline);
  /// Interleaved 1F1B (Narayanan et al., 2021). Chunk c on stage c mod stages.
  static Schedule interleaved(const Pipeline& pipeline);
  /// Breadth-first pipeline parallelism (Lamy-Poirier, 2023): all forwards chunk by chunk, then all
  /// backwards in reverse. Chunk c on stage c mod stages. Its backwards run from the last microbatch to
  /// the first, so `with_ordered_accumulation` splits all of them but the last.
  static Schedule looped_bfs(const Pipeline& pipeline);
  /// ZB-H1 (Qi et al., 2023): 1F1B with weight gradients put off while memory stays that of 1F1B.
  /// One chunk a stage.
  static Schedule zb_h1(const Pipeline& pipeline);
  /// ZB-V (Qi et al., 2024): no bubble on a stage between its first and last task where a forward, an
  /// input gradient and a weight gradient take the same time. V placement; with fewer than
  /// 2 * stages - 1 microbatches it is the same pattern without those that do not exist.
  static Schedule zb_v(const Pipeline& pipeline);
  /// DualPipeV (DeepSeek and Sea AI, 2025). V placement; at least two microbatches a stage. A stage
  /// runs one task at a time: the forward and the backward that the original overlaps run one after the
  /// other, the forward first.
  static Schedule dualpipe_v(const Pipeline& pipeline);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::uint32_t stages() const noexcept { return static_cast<std::uint32_t>(orders_.size()); }
  [[nodiscard]] std::span<const Task> order(StageId stage) const { return orders_[stage]; }

  /// Every task of the pipeline once, on its stage, and the orders can be executed together.
  /// @throws ConfigError naming `schedule`, the rank and the position of the first fault
  void validate(const Pipeline& pipeline) const;

  /// The first fault of each rank that has one, by rank; none for a valid schedule. Orders that would
  /// deadlock together are looked for only where each is sound by itself.
  /// @throws ConfigError naming `schedule` for another number of ranks than the pipeline has
  [[nodiscard]] std::vector<ScheduleFault> faults(const Pipeline& pipeline) const;

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
