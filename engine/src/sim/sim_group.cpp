#include "sluice/sim/sim_group.hpp"

#include <algorithm>

namespace sluice::sim {

class SimGroup::Endpoint final : public Agreement {
 public:
  Endpoint(SimGroup& group, std::uint32_t member) : group_(group), member_(member) {}

  void begin(const Iteration& /*iteration*/, const Arbiter& arbiter) override {
    if (member_ == 0) group_.begin(arbiter);
  }
  void announce(std::span<const RunnableChange> changes) override { group_.announce(member_, changes); }
  [[nodiscard]] std::optional<Task> poll(const Arbiter& arbiter, PassMask allowed) override {
    return group_.poll(member_, arbiter, allowed);
  }

 private:
  SimGroup& group_;
  std::uint32_t member_;
};

SimGroup::SimGroup(const StageTasks& tasks, std::uint32_t members, GroupRule rule, Duration latency,
                   std::uint32_t first_rank, const Clock& clock, Timetable& timetable,
                   const SimDevice* device)
    : common_(tasks, members),
      rule_(rule),
      latency_(latency),
      first_rank_(first_rank),
      clock_(clock),
      timetable_(timetable),
      device_(device),
      members_(members),
      asks_(members) {
  for (std::uint32_t member = 0; member < members; ++member)
    members_[member].endpoint = std::make_unique<Endpoint>(*this, member);
}

SimGroup::~SimGroup() = default;

Agreement& SimGroup::endpoint(std::uint32_t member) { return *members_[member].endpoint; }

void SimGroup::begin(const Arbiter& arbiter) {
  common_.begin(arbiter);
  for (agree::Ask& ask : asks_) ask.pick.reset();
  for (Member& member : members_) {
    member.joined = false;
    member.taken = true;
  }
  decision_.reset();
  open_ = false;
  busy_until_ = Time{0};
  changed_ = true;
  willing_since_ = kNever;
  agreeing_ = Duration{0};
  deferred_ = 0;
  decisions_ = 0;
}

void SimGroup::announce(std::uint32_t member, std::span<const RunnableChange> changes) {
  for (const auto& [task, runnable] : changes) common_.set(member, task, runnable);
  changed_ = true;
}

std::optional<Task> SimGroup::poll(std::uint32_t member, const Arbiter& arbiter, PassMask allowed) {
  if (decision_) return take(members_[member]);
  const agree::Ask ask = agree::ask_of(arbiter, allowed);
  agree::Ask& last = asks_[member];
  if (ask.allowed != last.allowed || ask.pick != last.pick) changed_ = true;
  last = ask;
  note_willingness();
  if (!open_ && changed_ && clock_.now() >= busy_until_ && ask.pick) open();
  if (open_) join(member);
  return decision_ ? take(members_[member]) : std::nullopt;
}

void SimGroup::note_willingness() {
  const bool willing =
      std::all_of(asks_.begin(), asks_.end(), [](const agree::Ask& each) { return each.pick.has_value(); });
  if (!willing) {
    willing_since_ = kNever;
  } else if (willing_since_ == kNever) {
    willing_since_ = clock_.now();
  }
}

/// Rings the peers: each joins when it next looks, changed or not.
void SimGroup::open() {
  open_ = true;
  changed_ = false;
  for (Member& member : members_) member.joined = false;
  ring(clock_.now());
}

void SimGroup::join(std::uint32_t number) {
  Member& member = members_[number];
  const std::optional<Task>& pick = asks_[number].pick;
  // With nothing to propose, the published rule waits in the attempt until there is.
  if (member.joined || (rule_ == GroupRule::FirstPick && !pick)) return;
  member.joined = true;
  member.proposal = pick;
  const auto joined = [](const Member& each) { return each.joined; };
  if (!std::all_of(members_.begin(), members_.end(), joined)) return;
  open_ = false;
  const std::optional<Task> task =
      rule_ == GroupRule::CommonCandidate ? common_.candidate(asks_) : equal_proposal();
  if (task) {
    decide(*task);
    return;
  }
  ++deferred_;
  // What came while others were still to join has been seen, but for proposals that were made before it.
  changed_ = false;
  for (std::size_t each = 0; each < members_.size(); ++each)
    changed_ |= asks_[each].pick != members_[each].proposal;
  busy_until_ = clock_.now() + latency_;
  ring(busy_until_);
}

std::optional<Task> SimGroup::take(Member& member) {
  if (member.taken || clock_.now() < decided_at_) return std::nullopt;
  member.taken = true;
  const std::optional<Task> task = decision_;
  const bool all =
      std::all_of(members_.begin(), members_.end(), [](const Member& each) { return each.taken; });
  if (all) {
    decision_.reset();
    // Whoever took it earlier may already want the next one.
    ring(clock_.now());
  }
  return task;
}

std::optional<Task> SimGroup::equal_proposal() const {
  const std::optional<Task>& first = members_.front().proposal;
  const bool equal = std::all_of(members_.begin(), members_.end(),
                                 [&](const Member& each) { return each.proposal == first; });
  return equal ? first : std::nullopt;
}

void SimGroup::decide(const Task& task) {
  decision_ = task;
  decided_at_ = clock_.now() + latency_;
  if (willing_since_ != kNever) {
    const Time stands_from =
        device_ != nullptr ? std::max(willing_since_, device_->free_from()) : willing_since_;
    agreeing_ += std::max(Duration{0}, decided_at_ - stands_from);
  }
  willing_since_ = kNever;
  changed_ = true;
  ++decisions_;
  common_.decided(task);
  for (Member& member : members_) member.taken = false;
  ring(decided_at_);
}

void SimGroup::ring(Time at) {
  for (std::uint32_t member = 0; member < members_.size(); ++member) timetable_.add(at, first_rank_ + member);
}

}  // namespace sluice::sim
