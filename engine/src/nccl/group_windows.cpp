#include "group_windows.hpp"

#include <algorithm>

namespace sluice::nccl {
namespace {

PassMask passes_of(const Hint& hint, std::uint32_t cls) {
  PassMask passes = 0;
  for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::WeightGrad}) {
    if (hint.class_of(pass) == cls) passes |= mask_of(pass);
  }
  return passes;
}

}  // namespace

static_assert(kernels::kWindows == Hint::kClasses);

void GroupWindows::look(const Arbiter& arbiter, PassMask allowed, const HintOrder& order,
                        const RankRanges& common) {
  *this = {};
  const Hint& hint = arbiter.hint();
  if (!arbiter.focusing()) {
    for (std::uint32_t cls = 0; cls < Hint::kClasses; ++cls)
      add(cls, common[cls], allowed & passes_of(hint, cls));
    return;
  }
  if (const std::optional<Task> focus = arbiter.focus()) {
    const std::uint32_t cls = hint.class_of(focus->pass);
    const std::uint32_t rank = order.rank(*focus);
    if (rank >= common[cls].begin && rank < common[cls].end)
      add(cls, {rank, rank + 1}, allowed & mask_of(focus->pass));
  }
  const std::uint32_t weights = hint.class_of(Pass::WeightGrad);
  add(weights, common[weights], allowed & mask_of(Pass::WeightGrad));
}

void GroupWindows::add(std::uint32_t cls, const RankRange& range, PassMask passes) {
  if (passes == 0 || range.begin == range.end) return;
  first_[used_] = {cls, range.begin};
  windows_.of[used_++] = {bytes_, range.end - range.begin, passes};
  bytes_ += range.end - range.begin;
}

void GroupWindows::gather(const HintOrder& order, std::span<const std::uint8_t> all,
                          std::span<std::uint8_t> bytes) const {
  for (std::size_t window = 0; window < used_; ++window) {
    const auto& [begin, count, passes] = windows_.of[window];
    const auto from = all.subspan(order.offset(first_[window].cls) + first_[window].rank, count);
    std::copy(from.begin(), from.end(), bytes.begin() + begin);
  }
}

std::optional<Task> GroupWindows::choose(Arbiter& arbiter, const kernels::Firsts& firsts) const {
  std::array<Task, kernels::kWindows> tasks;
  std::size_t found = 0;
  for (std::size_t window = 0; window < used_; ++window) {
    if (firsts.of[window] == kernels::kNoTask) continue;
    tasks[found] = arbiter.hint().task(first_[window].cls, first_[window].rank + firsts.of[window]);
    arbiter.insert(tasks[found++]);
  }
  const std::optional<Task> chosen = arbiter.candidate();
  for (std::size_t i = 0; i < found; ++i) arbiter.erase(tasks[i]);
  return chosen;
}

}  // namespace sluice::nccl
