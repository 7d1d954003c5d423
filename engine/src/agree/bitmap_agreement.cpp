#include "sluice/agree/bitmap_agreement.hpp"

#include <algorithm>
#include <cstring>

namespace sluice::agree {

BitmapAgreement::BitmapAgreement(const StageTasks& tasks, GroupChannel& channel, const Clock& clock)
    : AttemptAgreement(tasks, channel, clock, MessageKind::Bitmap,
                       TaskSet::words(tasks) * sizeof(std::uint64_t)),
      common_(tasks, channel.members()),
      own_(tasks),
      snapshots_(2 * std::size_t{channel.members()} * TaskSet::words(tasks)),
      asks_(channel.members()) {}

ChannelNeeds BitmapAgreement::needs(const StageTasks& tasks) {
  return {sizeof(ContributionMessage) + TaskSet::words(tasks) * sizeof(std::uint64_t), 4};
}

void BitmapAgreement::begin(const Iteration& iteration, const Arbiter& arbiter) {
  AttemptAgreement::begin(iteration, arbiter);
  common_.begin(arbiter);
  own_.clear();
  changed_ = false;
  changed_at_ = now();
}

void BitmapAgreement::announce(std::span<const RunnableChange> changes) {
  for (const auto& [task, runnable] : changes) own_.set(task, runnable && !common_.was_decided(task));
  if (changes.empty()) return;
  changed_ = true;
  changed_at_ = now();
}

bool BitmapAgreement::contributes(bool rung, const Ask& ask, const Ask* last) const {
  return rung || (ask.pick && (last == nullptr || changed_ || *last != ask));
}

std::span<std::uint64_t> BitmapAgreement::snapshot(std::uint32_t member, std::uint64_t attempt) {
  const std::size_t words = own_.words().size();
  return std::span(snapshots_).subspan(at(member, attempt) * words, words);
}

void BitmapAgreement::take(std::uint32_t from, std::uint64_t attempt, std::span<const std::byte> more) {
  const std::span<std::uint64_t> words = snapshot(from, attempt);
  std::memcpy(words.data(), more.data(), more.size());
  if (!own_.holds_tasks_only(words)) reader().refuse(from, "names a task that the stage does not have");
}

std::span<const std::byte> BitmapAgreement::contribute() {
  std::copy(own_.words().begin(), own_.words().end(), snapshot(member(), attempts().current()).begin());
  changed_ = false;
  return std::as_bytes(own_.words());
}

Time BitmapAgreement::stands_since() const {
  return asked_since() == kNever ? changed_at_ : std::max(changed_at_, asked_since());
}

std::optional<Task> BitmapAgreement::choose() {
  for (std::uint32_t each = 0; each < members(); ++each) {
    common_.assign(each, snapshot(each, attempts().current()));
    asks_[each] = contribution(each).ask;
  }
  const std::optional<Task> task = common_.candidate(asks_);
  if (!task) return std::nullopt;
  common_.decided(*task);
  own_.set(*task, false);
  return task;
}

bool BitmapAgreement::picks_differed(const Task& task) const {
  return std::any_of(asks_.begin(), asks_.end(), [&](const Ask& each) { return each.pick != task; });
}

}  // namespace sluice::agree
