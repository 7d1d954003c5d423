#include "sluice/sim/message_group.hpp"

#include <algorithm>
#include <utility>

namespace sluice::sim {

class MessageGroup::Endpoint final : public Agreement {
 public:
  Endpoint(MessageGroup& group, std::uint32_t member, std::unique_ptr<Agreement> agreement)
      : group_(group), member_(member), agreement_(std::move(agreement)) {}

  void begin(const Iteration& iteration, const Arbiter& arbiter) override {
    if (member_ == 0) group_.begin(arbiter);
    agreement_->begin(iteration, arbiter);
  }
  void announce(std::span<const RunnableChange> changes) override {
    for (const auto& [task, runnable] : changes) group_.common_.set(member_, task, runnable);
    agreement_->announce(changes);
  }
  [[nodiscard]] std::optional<Task> poll(const Arbiter& arbiter, PassMask allowed) override {
    group_.asked(member_, agree::ask_of(arbiter, allowed));
    const std::optional<Task> task = agreement_->poll(arbiter, allowed);
    if (task) group_.took(member_, *task);
    return task;
  }
  void device_idle(Time since) override { agreement_->device_idle(since); }
  [[nodiscard]] AgreementStatistics statistics() const override { return agreement_->statistics(); }

 private:
  MessageGroup& group_;
  std::uint32_t member_;
  std::unique_ptr<Agreement> agreement_;
};

MessageGroup::MessageGroup(const StageTasks& tasks, std::uint32_t members, agree::Form form, HopDelay delay,
                           std::uint32_t first_rank, const Clock& clock, Timetable& timetable,
                           const SimDevice& device)
    : clock_(clock),
      device_(device),
      channels_(members, first_rank, clock, timetable, std::move(delay)),
      common_(tasks, members),
      asks_(members),
      before_(members) {
  for (std::uint32_t member = 0; member < members; ++member) {
    endpoints_.push_back(std::make_unique<Endpoint>(
        *this, member, agree::make_agreement(form, tasks, channels_.channel(member), clock)));
  }
}

MessageGroup::~MessageGroup() = default;

Agreement& MessageGroup::endpoint(std::uint32_t member) { return *endpoints_[member]; }

AgreementStatistics MessageGroup::statistics(std::uint32_t member) const {
  AgreementStatistics all = endpoints_[member]->statistics();
  const AgreementStatistics& before = before_[member];
  all.decisions -= before.decisions;
  all.attempts -= before.attempts;
  all.deferrals -= before.deferrals;
  all.picks_differed -= before.picks_differed;
  all.idle -= before.idle;
  return all;
}

void MessageGroup::begin(const Arbiter& arbiter) {
  common_.begin(arbiter);
  std::fill(asks_.begin(), asks_.end(), agree::Ask{});
  for (std::size_t member = 0; member < before_.size(); ++member)
    before_[member] = endpoints_[member]->statistics();
  takers_ = 0;
  stands_from_ = kNever;
  agreeing_ = Duration{0};
}

void MessageGroup::asked(std::uint32_t member, const agree::Ask& ask) {
  asks_[member] = ask;
  if (takers_ > 0) return;  // the last decision still stands for somebody
  const bool all =
      std::all_of(asks_.begin(), asks_.end(), [](const agree::Ask& each) { return each.pick.has_value(); });
  if (!all || !common_.candidate(asks_)) {
    stands_from_ = kNever;
  } else if (stands_from_ == kNever) {
    stands_from_ = clock_.now();
  }
}

void MessageGroup::took(std::uint32_t member, const Task& task) {
  if (takers_++ == 0) common_.decided(task);
  asks_[member] = {};
  if (takers_ < asks_.size()) return;
  takers_ = 0;
  const Time stands_from = std::exchange(stands_from_, kNever);
  if (stands_from != kNever)
    agreeing_ += std::max(Duration{0}, clock_.now() - std::max(stands_from, device_.free_from()));
}

}  // namespace sluice::sim
