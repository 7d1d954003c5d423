#include "sluice/agree/group_agreement.hpp"

#include <algorithm>

namespace sluice::agree {

GroupAgreement::GroupAgreement(const StageTasks& tasks, GroupChannel& channel, const Clock& clock)
    : channel_(channel),
      clock_(clock),
      reader_(tasks),
      members_(channel.members()),
      member_(channel.member()) {}

void GroupAgreement::begin(const Iteration& iteration, const Arbiter& /*arbiter*/) {
  if (begun_) previous_ = iteration_;
  begun_ = true;
  iteration_ = iteration.index;
  decisions_before_ = statistics_.decisions;
  asked_since_ = kNever;
}

void GroupAgreement::note_asked() {
  if (asked_since_ == kNever) asked_since_ = clock_.now();
}

bool GroupAgreement::receive(Received& message) {
  // Peers may have begun before this rank.
  if (!begun_ || !channel_.poll(message.from, message.bytes)) return false;
  if (message.from >= members_ || message.from == member_)
    reader_.refuse(message.from, "cannot come from there");
  return true;
}

void GroupAgreement::count_deferrals(std::uint64_t attempts) {
  statistics_.attempts += attempts;
  statistics_.deferrals += attempts;
}

Task GroupAgreement::decided(const Task& task, Time stands_from, bool picks_differed) {
  ++statistics_.decisions;
  ++statistics_.attempts;
  if (picks_differed) ++statistics_.picks_differed;
  if (idle_since_ != kNever && asked_since_ != kNever) {
    const Time from = std::max({stands_from, asked_since_, idle_since_});
    statistics_.idle += std::max(Duration{0}, clock_.now() - from);
  }
  idle_since_ = kNever;
  asked_since_ = kNever;
  return task;
}

}  // namespace sluice::agree
