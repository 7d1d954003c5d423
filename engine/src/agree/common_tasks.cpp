#include "sluice/agree/common_tasks.hpp"

#include <algorithm>

namespace sluice::agree {

Ask ask_of(const Arbiter& arbiter, PassMask allowed) {
  const bool focusing = arbiter.focusing();
  return {allowed, focusing, focusing ? arbiter.focus() : std::nullopt, arbiter.candidate(allowed)};
}

PassMask focus_group(Arbiter& arbiter, std::span<const Ask> asks) {
  PassMask allowed = kAllPasses;
  arbiter.clear_focus();
  for (const Ask& ask : asks) {
    allowed &= ask.allowed;
    if (ask.focusing) arbiter.focus_on(ask.focus);
  }
  return allowed;
}

CommonTasks::CommonTasks(const StageTasks& tasks, std::uint32_t members)
    : tasks_(tasks),
      runnable_(members, TaskSet(tasks)),
      members_with_(std::size_t{tasks.size()} * kPasses),
      decided_(tasks) {}

void CommonTasks::begin(const Arbiter& arbiter) {
  arbiter_ = arbiter;
  for (TaskSet& set : runnable_) set.clear();
  std::fill(members_with_.begin(), members_with_.end(), 0);
  decided_.clear();
}

void CommonTasks::set(std::uint32_t member, const Task& task, bool runnable) {
  TaskSet& set = runnable_[member];
  if (set.contains(task) == runnable || decided_.contains(task)) return;
  set.set(task, runnable);
  std::uint32_t& count = members_with_[static_cast<std::size_t>(task.pass) * tasks_.size() +
                                       tasks_.index(task.chunk, task.microbatch)];
  if (runnable) {
    if (++count == runnable_.size()) arbiter_->insert(task);
  } else {
    if (count-- == runnable_.size()) arbiter_->erase(task);
  }
}

void CommonTasks::assign(std::uint32_t member, std::span<const std::uint64_t> words) {
  for (std::size_t word = 0; word < words.size(); ++word) {
    const std::uint64_t now = words[word];
    std::uint64_t differs = now ^ runnable_[member].words()[word];
    for (; differs != 0; differs &= differs - 1) {
      const auto bit = static_cast<std::uint32_t>(std::countr_zero(differs));
      set(member, runnable_[member].task(word, bit), (now >> bit & 1U) != 0);
    }
  }
}

std::optional<Task> CommonTasks::candidate(std::span<const Ask> asks) {
  return arbiter_->candidate(focus_group(*arbiter_, asks));
}

void CommonTasks::decided(const Task& task) {
  decided_.set(task, true);
  arbiter_->decided(task);
}

}  // namespace sluice::agree
