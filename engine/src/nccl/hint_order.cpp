#include "hint_order.hpp"

#include <algorithm>

namespace sluice::nccl {

RankRanges overlap(const RankRanges& a, const RankRanges& b) noexcept {
  RankRanges both{};
  for (std::size_t cls = 0; cls < both.size(); ++cls) {
    const std::uint32_t begin = std::max(a[cls].begin, b[cls].begin);
    both[cls] = {begin, std::max(begin, std::min(a[cls].end, b[cls].end))};
  }
  return both;
}

HintOrder::HintOrder(const StageTasks& tasks)
    : tasks_(tasks), bytes_(std::size_t{tasks.size()} * kPasses), decided_(bytes_.size()) {}

void HintOrder::begin(const Hint& hint) {
  hint_ = hint;
  for (std::uint32_t cls = 0; cls < Hint::kClasses; ++cls)
    offset_[cls + 1] = offset_[cls] + hint.class_size(cls);
  std::fill(bytes_.begin(), bytes_.end(), 0);
  decided_.assign(decided_.size(), false);
  reach_ = {};
}

std::uint32_t HintOrder::rank(const Task& task) const noexcept {
  return hint_->rank(task.pass, tasks_.index(task.chunk, task.microbatch));
}

void HintOrder::set(const Task& task, bool runnable) noexcept {
  const std::uint32_t cls = hint_->class_of(task.pass);
  const std::uint32_t place = rank(task);
  if (decided_[offset_[cls] + place]) return;
  bytes_[offset_[cls] + place] = runnable ? mask_of(task.pass) : 0;
  if (runnable) reach_[cls].end = std::max(reach_[cls].end, place + 1);
}

void HintOrder::decided(const Task& task) noexcept {
  const std::uint32_t cls = hint_->class_of(task.pass);
  const std::uint32_t at = offset_[cls] + rank(task);
  bytes_[at] = 0;
  decided_[at] = true;
  std::uint32_t& begin = reach_[cls].begin;
  while (begin < size(cls) && decided_[offset_[cls] + begin]) ++begin;
}

RankRanges HintOrder::ranges() const noexcept {
  RankRanges ranges = reach_;
  for (std::uint32_t cls = 0; cls < Hint::kClasses; ++cls) {
    auto& [begin, end] = ranges[cls];
    end = std::max(begin, end);
    const std::uint8_t* const bytes = bytes_.data() + offset_[cls];
    while (begin < end && bytes[begin] == 0) ++begin;
    while (begin < end && bytes[end - 1] == 0) --end;
  }
  return ranges;
}

}  // namespace sluice::nccl
