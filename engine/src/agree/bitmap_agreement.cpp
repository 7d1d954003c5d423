#include "sluice/agree/bitmap_agreement.hpp"

#include <algorithm>
#include <cstring>

namespace sluice::agree {

BitmapAgreement::BitmapAgreement(const StageTasks& tasks, GroupChannel& channel, const Clock& clock)
    : SnapshotAgreement(tasks, channel, clock, MessageKind::Bitmap,
                        TaskSet::words(tasks) * sizeof(std::uint64_t)),
      common_(tasks, channel.members()),
      own_(tasks),
      snapshots_(2 * std::size_t{channel.members()} * TaskSet::words(tasks)),
      asks_(channel.members()) {}

ChannelNeeds BitmapAgreement::needs(const StageTasks& tasks) {
  return {sizeof(ContributionMessage) + TaskSet::words(tasks) * sizeof(std::uint64_t), 4};
}

void BitmapAgreement::begin(const Iteration& iteration, const Arbiter& arbiter) {
  SnapshotAgreement::begin(iteration, arbiter);
  common_.begin(arbiter);
  own_.clear();
}

void BitmapAgreement::change(const RunnableChange& change) {
  own_.set(change.task, change.runnable && !common_.was_decided(change.task));
}

std::span<std::uint64_t> BitmapAgreement::words_of(std::uint32_t member, std::uint64_t attempt) {
  const std::size_t words = own_.words().size();
  return std::span(snapshots_).subspan(at(member, attempt) * words, words);
}

void BitmapAgreement::take(std::uint32_t from, std::uint64_t attempt, std::span<const std::byte> more) {
  const std::span<std::uint64_t> words = words_of(from, attempt);
  std::memcpy(words.data(), more.data(), more.size());
  if (!own_.holds_tasks_only(words)) reader().refuse(from, "names a task that the stage does not have");
}

std::span<const std::byte> BitmapAgreement::snapshot() {
  std::copy(own_.words().begin(), own_.words().end(), words_of(member(), attempts().current()).begin());
  return std::as_bytes(own_.words());
}

std::optional<Task> BitmapAgreement::choose() {
  for (std::uint32_t each = 0; each < members(); ++each) {
    common_.assign(each, words_of(each, attempts().current()));
    asks_[each] = contribution(each).ask;
  }
  const std::optional<Task> task = common_.candidate(asks_);
  if (!task) return std::nullopt;
  common_.decided(*task);
  own_.set(*task, false);
  return task;
}

}  // namespace sluice::agree
