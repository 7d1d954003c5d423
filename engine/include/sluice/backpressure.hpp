#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sluice/iteration.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/rules.hpp"
#include "sluice/stage_tasks.hpp"

namespace sluice {

/// The limit of one stage: who may come in, and what runs while the limit binds.
///
/// A stage has `limit` credits (one chunk) or `limit + C` (C chunks). An admitted (chunk, microbatch)
/// holds one until it is released. With the reservation rule, an admission leaves one free credit for
/// each chunk whose oldest unfinished microbatch has none, so the lowest microbatch unfinished anywhere
/// can always come in, and a pipeline cannot deadlock whatever the order of arrival.
///
/// Several chunks share the limit: an admission to one, unless it is the chunk's oldest, also leaves free
/// what the others' shares lack. A chunk's share is in proportion to how long its microbatches are in
/// flight, the way to the end of the pipeline and back; without shares the chunk that comes first fills
/// the stage. The C credits above the limit belong to no share.
class Backpressure {
 public:
  /// Where admission is not bounded there is a credit for every pair of the stage.
  /// @throws ConfigError naming `limit` if it is 0 or below the stage's number of chunks
  Backpressure(const Pipeline& pipeline, StageId stage, std::uint32_t limit, Rules rules);

  /// Forgets everything; the iteration's first task has not run.
  void begin(IterationKind kind) noexcept;

  [[nodiscard]] std::uint32_t limit() const noexcept { return limit_; }
  [[nodiscard]] std::uint32_t credits() const noexcept { return credits_; }
  [[nodiscard]] std::uint32_t free() const noexcept { return free_; }

  /// Whether the pair may take a credit now. The pair holds none.
  [[nodiscard]] bool admits(std::uint32_t position, Microbatch microbatch) const noexcept {
    if (rules_.reservation && microbatch == oldest_[position]) return free_ > 0;
    return open(position);
  }
  /// Whether any microbatch may take a credit for the chunk, not only its oldest.
  [[nodiscard]] bool open(std::uint32_t position) const noexcept {
    if (!rules_.reservation) return free_ > 0;
    return free_ > (shares_.empty() ? needed_ : kept_from(position));
  }

  void admitted(std::uint32_t position, Microbatch microbatch) noexcept;
  void released(std::uint32_t position, Microbatch microbatch) noexcept;
  void launched(const Task& task) noexcept;

  /// What is kept free for the chunk while others come in; 0 where chunks have no shares.
  [[nodiscard]] std::uint32_t share(std::uint32_t position) const noexcept {
    return shares_.empty() ? 0 : shares_[position];
  }

  /// The chunk's lowest microbatch that is not released; the number of microbatches if none is left.
  [[nodiscard]] Microbatch oldest(std::uint32_t position) const noexcept { return oldest_[position]; }

  /// Forwards run minus microbatches released; under the published rules, minus backwards run.
  [[nodiscard]] std::uint32_t in_flight() const noexcept { return in_flight_; }
  [[nodiscard]] std::uint32_t peak_in_flight() const noexcept { return peak_; }

  /// Several chunks, of which whatever was admitted may run at the limit.
  [[nodiscard]] bool mixed() const noexcept {
    return tasks_.chunks() > 1 && rules_.mixed_at_limit && rules_.bounded_admission;
  }
  /// One chunk and D at the limit: no forward runs. Where admission is bounded, no forward is left then.
  [[nodiscard]] bool holds_forwards() const noexcept { return tasks_.chunks() == 1 && in_flight_ >= limit_; }
  /// Several chunks, D at the limit, and no rule that lets admitted work mix: microbatches are finished
  /// one at a time, in index order.
  [[nodiscard]] bool focusing() const noexcept {
    return !mixed() && tasks_.chunks() > 1 && in_flight_ >= limit_;
  }
  /// Next task of the lowest microbatch whose F0..F(C-1), B(C-1)..B0 have not all been launched.
  [[nodiscard]] std::optional<Task> focus() const noexcept;

 private:
  static constexpr std::uint8_t kAdmitted = 1;
  static constexpr std::uint8_t kReleased = 2;

  void divide(const Pipeline& pipeline);
  [[nodiscard]] std::uint32_t kept_from(std::uint32_t position) const noexcept;
  [[nodiscard]] std::uint32_t steps() const noexcept;
  [[nodiscard]] Task step(std::uint32_t number) const noexcept;
  void advance_oldest(std::uint32_t position) noexcept;
  void advance_focus() noexcept;

  StageTasks tasks_;
  std::uint32_t limit_;
  Rules rules_;
  std::uint32_t credits_;
  IterationKind kind_ = IterationKind::Training;
  std::uint32_t free_ = 0;
  /// Chunks whose oldest unfinished microbatch holds no credit.
  std::uint32_t needed_ = 0;
  std::uint32_t in_flight_ = 0;
  std::uint32_t peak_ = 0;
  std::vector<Microbatch> oldest_;
  /// By position: share of the limit, and credits held; empty where chunks have no shares.
  std::vector<std::uint32_t> shares_;
  std::vector<std::uint32_t> held_;
  std::vector<std::uint8_t> flags_;
  /// Passes launched of each pair, one bit a pass.
  std::vector<std::uint8_t> launched_;
  Microbatch focus_microbatch_ = 0;
  std::uint32_t focus_step_ = 0;
};

}  // namespace sluice
