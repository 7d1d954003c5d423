#include "sluice/agree/leader_agreement.hpp"

#include <algorithm>
#include <utility>

namespace sluice::agree {

LeaderAgreement::LeaderAgreement(const StageTasks& tasks, GroupChannel& channel, const Clock& clock)
    : GroupAgreement(tasks, channel, clock),
      common_(tasks, channel.members()),
      asks_(channel.members()),
      peers_(channel.members(), Peer{Time{0}, false, {}, TaskSet(tasks)}),
      told_(tasks) {
  pending_.reserve(kMostPending);
}

ChannelNeeds LeaderAgreement::needs(const StageTasks& tasks) {
  // A message tells at least one change, or other room than the last one: the leader may be busy with a task
  // for as long as it takes the member to hear of all of its tasks.
  return {std::max(sizeof(AskMessage), sizeof(DecisionMessage)), 8 * (std::size_t{tasks.size()} + kPasses)};
}

void LeaderAgreement::begin(const Iteration& iteration, const Arbiter& arbiter) {
  GroupAgreement::begin(iteration, arbiter);
  pending_.clear();
  told_.clear();
  asked_ = false;
  if (!leads()) return;
  common_.begin(arbiter);
  std::fill(asks_.begin(), asks_.end(), Ask{});
  changed_ = false;
  stands_from_ = kNever;
  deferrals_ = 0;
  for (std::uint32_t peer = 0; peer < members(); ++peer) {
    Peer& from = peers_[peer];
    if (!std::exchange(from.ahead, false)) continue;
    if (*previous() + 1 != iteration.index) reader().refuse(peer, "came before the iteration that begins");
    common_.assign(peer, from.early.words());
    asks_[peer] = from.early_ask;
    from.early.clear();
    from.early_ask = {};
    changed_ = true;
  }
}

void LeaderAgreement::announce(std::span<const RunnableChange> changes) {
  if (leads()) {
    for (const auto& [task, runnable] : changes) common_.set(kLeader, task, runnable);
    changed_ |= !changes.empty();
    return;
  }
  for (const RunnableChange& change : changes) {
    if (pending_.size() == kMostPending) tell({}, false);
    pending_.push_back(change);
    if (change.runnable) told_.set(change.task, true);
  }
}

std::optional<Task> LeaderAgreement::poll(const Arbiter& arbiter, PassMask allowed) {
  return leads() ? lead(arbiter, allowed) : follow(arbiter, allowed);
}

std::optional<Task> LeaderAgreement::lead(const Arbiter& arbiter, PassMask allowed) {
  for (Received message; receive(message);) take(message);
  const Ask ask = ask_of(arbiter, allowed);
  if (ask.pick) note_asked();
  if (ask != asks_[kLeader]) {
    asks_[kLeader] = ask;
    changed_ = true;
  }
  if (!changed_) return std::nullopt;
  changed_ = false;
  const bool all = all_ask();
  const std::optional<Task> task = all ? common_.candidate(asks_) : std::nullopt;
  if (!task) {
    stands_from_ = kNever;
    if (!all) return std::nullopt;
    ++deferrals_;
    count_deferrals(1);
    return std::nullopt;
  }
  if (stands_from_ == kNever) stands_from_ = now();
  const bool picks_differed =
      std::any_of(asks_.begin(), asks_.end(), [&](const Ask& each) { return each.pick != task; });
  broadcast(*task, picks_differed);
  common_.decided(*task);
  const Time stands_from = std::exchange(stands_from_, kNever);
  std::fill(asks_.begin(), asks_.end(), Ask{});
  deferrals_ = 0;
  return decided(*task, stands_from, picks_differed);
}

void LeaderAgreement::take(const Received& received) {
  const auto from = received.from;
  const auto message = reader().read<AskMessage>(from, received.bytes, AskMessage::kKind);
  const Header& header = message.header;
  reader().check(from, message.ask);
  if (header.flag > 1 || header.changes > AskMessage::kMostChanges)
    reader().refuse(from, "has a field out of range");
  for (std::size_t i = 0; i < header.changes; ++i) reader().check(from, message.changes[i]);
  if (stale(from, header)) return;
  peers_[from].at = Time{header.since};
  if (header.iteration != iteration()) return hold(from, message);
  changed_ = true;
  for (std::size_t i = 0; i < header.changes; ++i)
    common_.set(from, message.changes[i].task(), message.changes[i].flag != 0);
  if (header.flag == 0 || header.number != decisions() + 1) return;
  asks_[from] = message.ask.ask();
  note_common();
}

/// What a member said before it knew of the last decision of the iteration that has ended.
bool LeaderAgreement::stale(std::uint32_t from, const Header& header) const {
  const std::uint64_t decided = decisions();
  const bool of_last = header.number == decided && decided == decisions_before();
  if (of_last && header.iteration == previous()) return true;
  const bool of_this = header.iteration == iteration() && !of_last;
  const bool of_next = header.iteration == iteration() + 1 && header.number == decided + 1;
  if (!of_this && !of_next) reader().refuse(from, "is of an impossible iteration");
  if (header.number != decided && header.number != decided + 1)
    reader().refuse(from, "is of an impossible decision");
  return false;
}

void LeaderAgreement::hold(std::uint32_t from, const AskMessage& message) {
  Peer& peer = peers_[from];
  peer.ahead = true;
  for (std::size_t i = 0; i < message.header.changes; ++i)
    peer.early.set(message.changes[i].task(), message.changes[i].flag != 0);
  if (message.header.flag != 0) peer.early_ask = message.ask.ask();
}

bool LeaderAgreement::all_ask() const {
  return std::all_of(asks_.begin(), asks_.end(), [](const Ask& each) { return each.pick.has_value(); });
}

/// The last member's message that was needed is here.
void LeaderAgreement::note_common() {
  if (stands_from_ != kNever || !all_ask() || !common_.candidate(asks_)) return;
  stands_from_ = asked_since();
  for (const Peer& peer : peers_) stands_from_ = std::max(stands_from_, peer.at);
}

void LeaderAgreement::broadcast(const Task& task, bool picks_differed) {
  DecisionMessage message{};
  message.header = {iteration(),
                    decisions() + 1,
                    stands_from_.count(),
                    DecisionMessage::kKind,
                    static_cast<std::uint8_t>(picks_differed ? 1 : 0),
                    0,
                    deferrals_};
  message.task = TaskField::of(task);
  for (std::uint32_t peer = 0; peer < members(); ++peer) {
    if (peer != kLeader) channel().send(peer, std::as_bytes(std::span(&message, 1)));
  }
}

std::optional<Task> LeaderAgreement::follow(const Arbiter& arbiter, PassMask allowed) {
  if (const auto task = receive_decision()) return task;
  const Ask ask = ask_of(arbiter, allowed);
  // What it has asked with stands until it says otherwise.
  if (!ask.pick && !asked_) return std::nullopt;
  if (ask.pick) note_asked();
  if (asked_ && ask == sent_ && pending_.empty()) return std::nullopt;
  tell(ask, true);
  sent_ = ask;
  asked_ = true;
  return std::nullopt;
}

/// Sends what is pending, the ask with the last of it.
void LeaderAgreement::tell(const Ask& ask, bool asks) {
  std::size_t told = 0;
  do {
    const std::size_t count = std::min(pending_.size() - told, AskMessage::kMostChanges);
    const bool last = told + count == pending_.size();
    AskMessage message{};
    message.header = {iteration(),
                      decisions() + 1,
                      now().count(),
                      AskMessage::kKind,
                      static_cast<std::uint8_t>(last && asks ? 1 : 0),
                      static_cast<std::uint16_t>(count),
                      0};
    if (last && asks) message.ask = AskFields::of(ask);
    for (std::size_t i = 0; i < count; ++i) message.changes[i] = TaskField::of(pending_[told + i]);
    channel().send(kLeader, std::as_bytes(std::span(&message, 1)));
    told += count;
  } while (told < pending_.size());
  pending_.clear();
}

std::optional<Task> LeaderAgreement::receive_decision() {
  Received received;
  if (!receive(received)) return std::nullopt;
  const auto from = received.from;
  const auto message = reader().read<DecisionMessage>(from, received.bytes, DecisionMessage::kKind);
  const Header& header = message.header;
  if (from != kLeader) reader().refuse(from, "only the leader may send");
  if (header.flag > 1) reader().refuse(from, "has a field out of range");
  reader().check(from, message.task);
  if (header.iteration != iteration()) reader().refuse(from, "is of an impossible iteration");
  if (!asked_ || header.number != decisions() + 1) reader().refuse(from, "is of an impossible decision");
  const Task task = message.task.task();
  if (!told_.contains(task)) reader().refuse(from, "decides a task that is not runnable here");
  told_.set(task, false);
  asked_ = false;
  count_deferrals(header.deferrals);
  return decided(task, Time{header.since}, header.flag != 0);
}

}  // namespace sluice::agree
