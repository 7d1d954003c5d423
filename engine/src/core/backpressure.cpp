#include "sluice/backpressure.hpp"

#include <algorithm>
#include <string>

#include "sluice/error.hpp"

namespace sluice {
namespace {

std::uint8_t bit(Pass pass) { return static_cast<std::uint8_t>(1U << static_cast<unsigned>(pass)); }

std::uint32_t credits_under(const Rules& rules, std::uint32_t limit, const StageTasks& tasks) {
  if (!rules.bounded_admission) return tasks.size();
  // More than there are pairs is never used.
  const std::uint64_t credits = std::uint64_t{limit} + (tasks.chunks() == 1 ? 0 : tasks.chunks());
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(credits, tasks.size()));
}

}  // namespace

Backpressure::Backpressure(const Pipeline& pipeline, StageId stage, std::uint32_t limit, Rules rules)
    : tasks_(pipeline, stage),
      limit_(limit),
      rules_(rules),
      credits_(credits_under(rules, limit, tasks_)),
      oldest_(tasks_.chunks()),
      flags_(tasks_.size()),
      launched_(tasks_.size()) {
  if (limit == 0) throw ConfigError("limit", "must be at least 1");
  if (limit < tasks_.chunks()) {
    throw ConfigError("limit", std::to_string(limit) + " is below the " + std::to_string(tasks_.chunks()) +
                                   " chunks of stage " + std::to_string(stage));
  }
  if (mixed() && rules_.reservation) divide(pipeline);
  begin(kind_);
}

/// The limit among the chunks, a chunk's part in proportion to the chunks from it to the end.
void Backpressure::divide(const Pipeline& pipeline) {
  const std::vector<std::uint32_t> hops = pipeline.hops_to_end();
  std::uint64_t all = 0;
  for (std::uint32_t position = 0; position < tasks_.chunks(); ++position)
    all += hops[tasks_.chunk_at(position)] + 1;
  const std::uint64_t limit = std::min(limit_, tasks_.size());
  std::uint64_t weight = 0;
  std::uint32_t given = 0;
  for (std::uint32_t position = 0; position < tasks_.chunks(); ++position) {
    weight += hops[tasks_.chunk_at(position)] + 1;
    const auto up_to_here =
        static_cast<std::uint32_t>((2 * weight * limit + all) / std::max<std::uint64_t>(2 * all, 1));
    shares_.push_back(up_to_here - given);
    given = up_to_here;
  }
  held_.resize(tasks_.chunks());
}

/// Credits that an admission to the chunk must leave free.
std::uint32_t Backpressure::kept_from(std::uint32_t position) const noexcept {
  std::uint32_t kept = 0;
  for (std::uint32_t other = 0; other < tasks_.chunks(); ++other) {
    const Microbatch oldest = oldest_[other];
    if (oldest == tasks_.microbatches()) continue;
    const std::uint8_t flags = flags_[std::size_t{other} * tasks_.microbatches() + oldest];
    const std::uint32_t reserved = (flags & kAdmitted) == 0 ? 1 : 0;
    const std::uint32_t share = std::min(shares_[other], tasks_.microbatches() - oldest);
    const std::uint32_t lacking = other != position && share > held_[other] ? share - held_[other] : 0;
    kept += std::max(reserved, lacking);
  }
  return kept;
}

void Backpressure::begin(IterationKind kind) noexcept {
  kind_ = kind;
  free_ = credits_;
  needed_ = tasks_.chunks();
  in_flight_ = 0;
  peak_ = 0;
  std::fill(oldest_.begin(), oldest_.end(), 0);
  std::fill(held_.begin(), held_.end(), 0);
  std::fill(flags_.begin(), flags_.end(), std::uint8_t{0});
  std::fill(launched_.begin(), launched_.end(), std::uint8_t{0});
  focus_microbatch_ = 0;
  focus_step_ = 0;
}

void Backpressure::admitted(std::uint32_t position, Microbatch microbatch) noexcept {
  flags_[position * tasks_.microbatches() + microbatch] |= kAdmitted;
  --free_;
  if (!held_.empty()) ++held_[position];
  if (microbatch == oldest_[position]) --needed_;
}

void Backpressure::released(std::uint32_t position, Microbatch microbatch) noexcept {
  flags_[position * tasks_.microbatches() + microbatch] |= kReleased;
  ++free_;
  if (!held_.empty()) --held_[position];
  if (rules_.hold_until_weight_grad || kind_ == IterationKind::ForwardOnly) --in_flight_;
  if (microbatch == oldest_[position]) advance_oldest(position);
}

void Backpressure::advance_oldest(std::uint32_t position) noexcept {
  const std::uint8_t* flags = &flags_[std::size_t{position} * tasks_.microbatches()];
  Microbatch& oldest = oldest_[position];
  while (oldest < tasks_.microbatches() && (flags[oldest] & kReleased) != 0) ++oldest;
  if (oldest < tasks_.microbatches() && (flags[oldest] & kAdmitted) == 0) ++needed_;
}

void Backpressure::launched(const Task& task) noexcept {
  launched_[tasks_.index(task.chunk, task.microbatch)] |= bit(task.pass);
  if (task.pass == Pass::Forward) peak_ = std::max(peak_, ++in_flight_);
  if (task.pass == Pass::Backward && !rules_.hold_until_weight_grad) --in_flight_;
  if (task.microbatch == focus_microbatch_) advance_focus();
}

std::uint32_t Backpressure::steps() const noexcept {
  return kind_ == IterationKind::Training ? 2 * tasks_.chunks() : tasks_.chunks();
}

Task Backpressure::step(std::uint32_t number) const noexcept {
  const std::uint32_t chunks = tasks_.chunks();
  if (number < chunks) return {focus_microbatch_, tasks_.chunk_at(number), Pass::Forward};
  return {focus_microbatch_, tasks_.chunk_at(2 * chunks - 1 - number), Pass::Backward};
}

void Backpressure::advance_focus() noexcept {
  while (focus_microbatch_ < tasks_.microbatches()) {
    const Task task = step(focus_step_);
    if ((launched_[tasks_.index(task.chunk, task.microbatch)] & bit(task.pass)) == 0) return;
    if (++focus_step_ == steps()) {
      focus_step_ = 0;
      ++focus_microbatch_;
    }
  }
}

std::optional<Task> Backpressure::focus() const noexcept {
  if (focus_microbatch_ == tasks_.microbatches()) return std::nullopt;
  return step(focus_step_);
}

}  // namespace sluice
