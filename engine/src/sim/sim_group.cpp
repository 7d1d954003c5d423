#include "sluice/sim/sim_group.hpp"

#include <algorithm>

namespace sluice::sim {

class SimGroup::Endpoint final : public Agreement {
 public:
  Endpoint(SimGroup& group, std::uint32_t member) : group_(group), member_(member) {}

  void announce(std::span<const RunnableChange> changes) override { group_.announce(changes); }
  [[nodiscard]] std::optional<Task> poll(const Arbiter& arbiter, PassMask allowed) override {
    return group_.poll(member_, arbiter, allowed);
  }

 private:
  SimGroup& group_;
  std::uint32_t member_;
};

SimGroup::SimGroup(const StageTasks& tasks, const Arbiter& arbiter, std::uint32_t members, GroupRule rule,
                   Duration latency, std::uint32_t first_rank, const Clock& clock, Timetable& timetable,
                   const SimDevice* device)
    : tasks_(tasks),
      common_(arbiter),
      rule_(rule),
      latency_(latency),
      first_rank_(first_rank),
      clock_(clock),
      timetable_(timetable),
      device_(device),
      members_(members),
      runnable_on_(std::size_t{tasks.size()} * kPasses) {
  for (std::uint32_t member = 0; member < members; ++member)
    members_[member].endpoint = std::make_unique<Endpoint>(*this, member);
}

SimGroup::~SimGroup() = default;

Agreement& SimGroup::endpoint(std::uint32_t member) { return *members_[member].endpoint; }

void SimGroup::begin() {
  common_.begin();
  std::fill(runnable_on_.begin(), runnable_on_.end(), std::uint8_t{0});
  for (Member& member : members_) {
    member.joined = false;
    member.taken = true;
    member.pick.reset();
  }
  decision_.reset();
  open_ = false;
  busy_until_ = Time{0};
  changed_ = true;
  willing_since_ = kNever;
  agreeing_ = Duration{0};
  deferred_ = 0;
}

void SimGroup::announce(std::span<const RunnableChange> changes) {
  for (const auto& [task, runnable] : changes) {
    std::uint8_t& count = runnable_on_[static_cast<std::size_t>(task.pass) * tasks_.size() +
                                       tasks_.index(task.chunk, task.microbatch)];
    if (runnable) {
      if (++count == members_.size()) common_.insert(task);
    } else {
      if (count-- == members_.size()) common_.erase(task);
    }
  }
  changed_ = true;
}

std::optional<Task> SimGroup::poll(std::uint32_t member, const Arbiter& arbiter, PassMask allowed) {
  Member& asking = members_[member];
  if (decision_) return take(asking);
  const std::optional<Task> pick = arbiter.candidate(allowed);
  if (asking.allowed != allowed || pick != asking.pick) changed_ = true;
  asking.allowed = allowed;
  asking.pick = pick;
  asking.focusing = arbiter.focusing();
  asking.focus = arbiter.focus();
  note_willingness();
  if (!open_ && changed_ && clock_.now() >= busy_until_ && pick) open();
  if (open_) join(asking);
  return decision_ ? take(asking) : std::nullopt;
}

void SimGroup::note_willingness() {
  const bool willing =
      std::all_of(members_.begin(), members_.end(), [](const Member& each) { return each.pick.has_value(); });
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

void SimGroup::join(Member& member) {
  // With nothing to propose, the published rule waits in the attempt until there is.
  if (member.joined || (rule_ == GroupRule::FirstPick && !member.pick)) return;
  member.joined = true;
  member.proposal = member.pick;
  const auto joined = [](const Member& each) { return each.joined; };
  if (!std::all_of(members_.begin(), members_.end(), joined)) return;
  open_ = false;
  const std::optional<Task> task =
      rule_ == GroupRule::CommonCandidate ? common_candidate() : equal_proposal();
  if (task) {
    decide(*task);
    return;
  }
  ++deferred_;
  // What came while others were still to join has been seen, but for proposals that were made before it.
  changed_ = std::any_of(members_.begin(), members_.end(),
                         [](const Member& each) { return each.pick != each.proposal; });
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

std::optional<Task> SimGroup::common_candidate() {
  PassMask allowed = kAllPasses;
  common_.clear_focus();
  for (const Member& member : members_) {
    allowed &= member.allowed;
    if (member.focusing) common_.focus_on(member.focus);
  }
  return common_.candidate(allowed);
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
  runnable_on_[static_cast<std::size_t>(task.pass) * tasks_.size() +
               tasks_.index(task.chunk, task.microbatch)] = 0;
  common_.decided(task);
  for (Member& member : members_) member.taken = false;
  ring(decided_at_);
}

void SimGroup::ring(Time at) {
  for (std::uint32_t member = 0; member < members_.size(); ++member) timetable_.add(at, first_rank_ + member);
}

}  // namespace sluice::sim
