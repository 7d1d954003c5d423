#include "sluice/agree/attempt_agreement.hpp"

#include <algorithm>
#include <cstring>

namespace sluice::agree {

AttemptAgreement::AttemptAgreement(const StageTasks& tasks, GroupChannel& channel, const Clock& clock,
                                   MessageKind kind, std::size_t more)
    : GroupAgreement(tasks, channel, clock),
      kind_(kind),
      more_(more),
      attempts_(channel.members(), channel.member()),
      contributions_(2 * std::size_t{channel.members()}),
      message_(sizeof(ContributionMessage) + more) {}

void AttemptAgreement::begin(const Iteration& iteration, const Arbiter& arbiter) {
  GroupAgreement::begin(iteration, arbiter);
  spoke_ = false;
  deferred_ = 0;
  check_iterations();
}

std::optional<Task> AttemptAgreement::poll(const Arbiter& arbiter, PassMask allowed) {
  take_all();
  const Ask ask = ask_of(arbiter, allowed);
  if (ask.pick) note_asked();
  while (true) {
    if (!attempts_.joined()) {
      if (!contributes(rung(), ask, spoke_ ? &said_ : nullptr)) return std::nullopt;
      join(ask);
    }
    if (!attempts_.complete()) return std::nullopt;
    check_iterations();
    if (!outcome_known()) return std::nullopt;
    if (const auto task = conclude()) return task;
  }
}

void AttemptAgreement::take_all() {
  for (Received received; receive(received);) {
    const auto from = received.from;
    const auto message = reader().read<ContributionMessage>(from, received.bytes, kind_, more_);
    const Header& header = message.header;
    reader().check(from, message.ask);
    if (header.iteration != iteration() && header.iteration != iteration() + 1)
      reader().refuse(from, "is of an impossible iteration");
    switch (attempts_.contribute(from, header.number)) {
      case Attempts::Fault::Repeated:
        reader().refuse(from, "came twice");
      case Attempts::Fault::OutOfOrder:
        reader().refuse(from, "is of an impossible attempt");
      case Attempts::Fault::None:
        break;
    }
    contributions_[at(from, header.number)] = {header.iteration, Time{header.since}, message.ask.ask()};
    take(from, header.number, received.bytes.subspan(sizeof(ContributionMessage)));
  }
}

/// Who has contributed to the current attempt is in this rank's iteration.
void AttemptAgreement::check_iterations() const {
  for (std::uint32_t peer = 0; peer < members(); ++peer) {
    if (peer == member() || !attempts_.has_contributed(peer)) continue;
    if (contribution(peer).iteration != iteration()) reader().refuse(peer, "is of an impossible iteration");
  }
}

bool AttemptAgreement::rung() const {
  for (std::uint32_t peer = 0; peer < members(); ++peer) {
    // A peer that is an iteration ahead waits for this rank to begin it.
    if (peer != member() && attempts_.has_contributed(peer) && contribution(peer).iteration == iteration())
      return true;
  }
  return false;
}

void AttemptAgreement::join(const Ask& ask) {
  check_iterations();
  const std::uint64_t attempt = attempts_.current();
  const Time since = stands_since();
  ContributionMessage fields{};
  fields.header = {iteration(), attempt, since.count(), kind_, 0, 0, 0};
  fields.ask = AskFields::of(ask);
  std::memcpy(message_.data(), &fields, sizeof fields);
  const std::span<const std::byte> more = contribute();
  std::copy(more.begin(), more.end(), message_.begin() + sizeof fields);
  for (std::uint32_t peer = 0; peer < members(); ++peer) {
    if (peer != member()) channel().send(peer, message_);
  }
  (void)attempts_.contribute(member(), attempt);
  contributions_[at(member(), attempt)] = {iteration(), since, ask};
  spoke_ = true;
  said_ = ask;
}

std::optional<Task> AttemptAgreement::conclude() {
  const std::optional<Task> task = choose();
  Time stands_from{0};
  for (std::uint32_t each = 0; each < members(); ++each)
    stands_from = std::max(stands_from, contribution(each).since);
  const bool differed = task && picks_differed(*task);
  attempts_.conclude();
  if (!task) {
    ++deferred_;
    count_deferrals(1);
    return std::nullopt;
  }
  spoke_ = false;
  deferred_ = 0;
  return decided(*task, stands_from, differed);
}

}  // namespace sluice::agree
