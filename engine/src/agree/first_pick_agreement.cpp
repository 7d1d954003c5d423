#include "sluice/agree/first_pick_agreement.hpp"

namespace sluice::agree {

FirstPickAgreement::FirstPickAgreement(const StageTasks& tasks, GroupChannel& channel, const Clock& clock)
    : AttemptAgreement(tasks, channel, clock, MessageKind::FirstPick, 0) {}

ChannelNeeds FirstPickAgreement::needs() { return {sizeof(ContributionMessage), 4}; }

bool FirstPickAgreement::contributes(bool rung, const Ask& ask, const Ask* last) const {
  if (!ask.pick) return false;
  return rung || last == nullptr || last->pick != ask.pick;
}

std::optional<Task> FirstPickAgreement::choose() {
  const std::optional<Task>& first = contribution(0).ask.pick;
  for (std::uint32_t each = 1; each < members(); ++each) {
    if (contribution(each).ask.pick != first) return std::nullopt;
  }
  return first;
}

}  // namespace sluice::agree
