#include "naive_arbiter.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace sluice::test {

NaiveArbiter::NaiveArbiter(const Pipeline& pipeline, StageId stage, Hint hint,
                           const std::array<Lane, kPasses>& lanes)
    : chunks_(pipeline.chunks_of(stage).begin(), pipeline.chunks_of(stage).end()),
      microbatches_(pipeline.microbatches()),
      hint_(std::move(hint)),
      weight_grads_apart_(lanes[2] != lanes[0] && lanes[2] != lanes[1]) {}

void NaiveArbiter::begin(IterationKind kind) {
  kind_ = kind;
  runnable_.clear();
  launched_.clear();
  turn_ = 0;
}

void NaiveArbiter::set_runnable(const Task& task, bool runnable) {
  if (runnable) {
    runnable_.insert(task);
  } else {
    runnable_.erase(task);
  }
}

std::optional<Task> NaiveArbiter::scan(std::span<const std::uint32_t> classes, PassMask allowed) const {
  for (const std::uint32_t cls : classes) {
    for (std::uint32_t rank = 0; rank < hint_.class_size(cls); ++rank) {
      const Task task = hint_.task(cls, rank);
      if ((mask_of(task.pass) & allowed) != 0 && runnable_.contains(task)) return task;
    }
  }
  return std::nullopt;
}

std::optional<Task> NaiveArbiter::focus() const {
  for (Microbatch m = 0; m < microbatches_; ++m) {
    std::vector<Task> order;
    for (const Chunk chunk : chunks_) order.push_back({m, chunk, Pass::Forward});
    if (kind_ == IterationKind::Training) {
      std::for_each(chunks_.rbegin(), chunks_.rend(), [&](Chunk chunk) {
        order.push_back({m, chunk, Pass::Backward});
      });
    }
    for (const Task& task : order) {
      if (!launched_.contains(task)) return task;
    }
  }
  return std::nullopt;
}

std::optional<Task> NaiveArbiter::choose(PassMask allowed, bool at_limit) const {
  if (at_limit) {
    const std::optional<Task> next = focus();
    if (next && (mask_of(next->pass) & allowed) != 0 && runnable_.contains(*next)) return next;
    const std::array cls{hint_.class_of(Pass::WeightGrad)};
    return scan(cls, allowed & mask_of(Pass::WeightGrad));
  }
  const bool second = hint_.rule() == RoundRule::Rounds && turn_ == 1;
  return scan(second ? std::array{1U, 0U, 2U} : std::array{0U, 1U, 2U}, allowed);
}

void NaiveArbiter::ran(const Task& task) {
  runnable_.erase(task);
  launched_.insert(task);
  if (task.pass == Pass::WeightGrad && weight_grads_apart_) return;
  turn_ = hint_.class_of(task.pass) == 0 ? 1 : 0;
}

void ComparedAgreement::begin(const Iteration& iteration, const Arbiter& /*arbiter*/) {
  if (!naive_.runnable().empty()) differences_.emplace_back("tasks stay runnable after their iteration");
  naive_.begin(iteration.kind);
}

void ComparedAgreement::announce(std::span<const RunnableChange> changes) {
  for (const RunnableChange& change : changes) naive_.set_runnable(change.task, change.runnable);
}

std::optional<Task> ComparedAgreement::poll(const Arbiter& arbiter, PassMask allowed) {
  std::array<std::uint32_t, kPasses> counts{};
  for (const Task& task : naive_.runnable()) {
    ++counts[static_cast<std::size_t>(task.pass)];
    if (!arbiter.contains(task))
      differences_.push_back(to_string(task) + " was announced but is not runnable");
  }
  for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::WeightGrad}) {
    if (counts[static_cast<std::size_t>(pass)] != arbiter.runnable(pass))
      differences_.emplace_back("runnable but not announced");
  }
  const std::optional<Task> decided = arbiter.candidate(allowed);
  const std::optional<Task> naive = naive_.choose(allowed, arbiter.focusing());
  const auto text = [](const std::optional<Task>& task) {
    return task ? to_string(*task) : std::string("nothing");
  };
  if (decided != naive) differences_.push_back("decided " + text(decided) + ", naively " + text(naive));
  if (decided) naive_.ran(*decided);
  return decided;
}

}  // namespace sluice::test
