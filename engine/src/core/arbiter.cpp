#include "sluice/arbiter.hpp"

#include <algorithm>
#include <utility>

namespace sluice {

Arbiter::Arbiter(const StageTasks& tasks, Hint hint, PassMask round_passes)
    : tasks_(tasks), hint_(std::move(hint)), round_passes_(round_passes) {
  for (std::uint32_t cls = 0; cls < Hint::kClasses; ++cls) sets_[cls] = ReadySet(hint_.class_size(cls));
  for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::WeightGrad}) {
    passes_[hint_.class_of(pass)] |= mask_of(pass);
  }
}

void Arbiter::begin() noexcept {
  for (ReadySet& set : sets_) set.clear();
  runnable_ = {};
  second_half_ = false;
  focusing_ = false;
}

std::optional<Task> Arbiter::first(std::uint32_t cls, PassMask allowed) const noexcept {
  if ((passes_[cls] & allowed) == 0) return std::nullopt;
  const ReadySet& set = sets_[cls];
  std::uint32_t rank = set.first();
  // Only a class that mixes passes can begin with one whose lane is full.
  while (rank != ReadySet::kNone) {
    const Task task = hint_.task(cls, rank);
    if ((mask_of(task.pass) & allowed) != 0) return task;
    rank = set.next(rank);
  }
  return std::nullopt;
}

std::optional<Task> Arbiter::focused(PassMask allowed) const noexcept {
  if (focus_ && (mask_of(focus_->pass) & allowed) != 0 && contains(*focus_)) return focus_;
  if (runnable(Pass::WeightGrad) == 0) return std::nullopt;
  return first(hint_.class_of(Pass::WeightGrad), allowed & mask_of(Pass::WeightGrad));
}

std::optional<Task> Arbiter::candidate(PassMask allowed) const noexcept {
  if (focusing_) return focused(allowed);
  if (hint_.rule() == RoundRule::Rounds && second_half_) {
    if (const auto task = first(1, allowed)) return task;
  }
  for (std::uint32_t cls = 0; cls < Hint::kClasses; ++cls) {
    if (const auto task = first(cls, allowed)) return task;
  }
  return std::nullopt;
}

}  // namespace sluice
