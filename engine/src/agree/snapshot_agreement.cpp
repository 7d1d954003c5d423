#include "sluice/agree/snapshot_agreement.hpp"

#include <algorithm>

namespace sluice::agree {

void SnapshotAgreement::begin(const Iteration& iteration, const Arbiter& arbiter) {
  AttemptAgreement::begin(iteration, arbiter);
  changed_ = false;
  changed_at_ = now();
}

void SnapshotAgreement::announce(std::span<const RunnableChange> changes) {
  for (const RunnableChange& each : changes) change(each);
  if (changes.empty()) return;
  changed_ = true;
  changed_at_ = now();
}

bool SnapshotAgreement::contributes(bool rung, const Ask& ask, const Ask* last) const {
  return rung || (ask.pick && (last == nullptr || changed_ || *last != ask));
}

std::span<const std::byte> SnapshotAgreement::contribute() {
  changed_ = false;
  return snapshot();
}

Time SnapshotAgreement::stands_since() const {
  return asked_since() == kNever ? changed_at_ : std::max(changed_at_, asked_since());
}

bool SnapshotAgreement::picks_differed(const Task& task) const {
  for (std::uint32_t each = 0; each < members(); ++each) {
    if (contribution(each).ask.pick != task) return true;
  }
  return false;
}

}  // namespace sluice::agree
