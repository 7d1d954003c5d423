#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sluice/arbiter.hpp"
#include "sluice/hint.hpp"
#include "sluice/stage_tasks.hpp"

namespace sluice::nccl {

/// Ranks of one class of a hint, from `begin` to before `end`.
struct RankRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  friend bool operator==(const RankRange&, const RankRange&) = default;
};

/// Of each class.
using RankRanges = std::array<RankRange, Hint::kClasses>;

/// What both have; `begin` is `end` where that is nothing.
[[nodiscard]] RankRanges overlap(const RankRanges& a, const RankRanges& b) noexcept;

/// What is runnable on a rank, a byte a task, in the order of the hint: the bit of the task's pass, otherwise
/// 0.
class HintOrder {
 public:
  explicit HintOrder(const StageTasks& tasks);

  /// Nothing is runnable, and nothing has been decided.
  void begin(const Hint& hint);
  /// Without effect if the task has been decided.
  void set(const Task& task, bool runnable) noexcept;
  void decided(const Task& task) noexcept;

  /// What lies between the first and the last task that is runnable.
  [[nodiscard]] RankRanges ranges() const noexcept;
  [[nodiscard]] std::span<const std::uint8_t> bytes() const noexcept { return bytes_; }
  /// The place of a class's first byte.
  [[nodiscard]] std::uint32_t offset(std::uint32_t cls) const noexcept { return offset_[cls]; }
  [[nodiscard]] std::uint32_t size(std::uint32_t cls) const noexcept {
    return offset_[cls + 1] - offset_[cls];
  }
  /// Within its class.
  [[nodiscard]] std::uint32_t rank(const Task& task) const noexcept;

 private:
  StageTasks tasks_;
  std::optional<Hint> hint_;
  std::array<std::uint32_t, Hint::kClasses + 1> offset_{};
  std::vector<std::uint8_t> bytes_;
  std::vector<bool> decided_;
  /// By class: no task before `begin` is left to run, and none from `end` on has ever been runnable.
  RankRanges reach_{};
};

}  // namespace sluice::nccl
