#include "sluice/nccl/nccl_agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "common_search.hpp"
#include "group_windows.hpp"
#include "hint_order.hpp"
#include "sluice/agree/common_tasks.hpp"
#include "sluice/error.hpp"

namespace sluice::nccl {
namespace {

Communicator& of_group(Communicator& communicator, const agree::GroupChannel& channel) {
  const Communicator::Place& place = communicator.place();
  if (place.ranks != channel.members() || place.rank != channel.member()) {
    throw ConfigError("group",
                      fmt::format("{}: the communicator is of rank {} of {}, the channel of member "
                                  "{} of {}",
                                  place.name, place.rank, place.ranks, channel.member(), channel.members()));
  }
  return communicator;
}

/// Every task, and the one in focus once more.
std::size_t most_bytes(const StageTasks& tasks) { return std::size_t{tasks.size()} * kPasses + 1; }

}  // namespace

struct NcclAgreement::State {
  State(const StageTasks& tasks, Communicator& of, std::uint32_t members, const AgreementOptions& how)
      : communicator(of),
        options(how),
        own(tasks),
        contributed(own.bytes().size()),
        ranges(2 * std::size_t{members}),
        asks(members),
        search(of, most_bytes(tasks), how.patience) {}

  Communicator& communicator;
  AgreementOptions options;
  /// The group's: its state advances with decisions alone.
  std::optional<Arbiter> arbiter;
  HintOrder own;
  /// This rank's bytes in the current attempt, in its ranges.
  std::vector<std::uint8_t> contributed;
  /// By attempt's parity and member.
  std::vector<RankRanges> ranges;
  std::vector<agree::Ask> asks;
  GroupWindows windows;
  CommonSearch search;
  /// The last attempt that all members have come to.
  std::uint64_t started = 0;
  Time started_at{0};
  Time next_look{0};
};

NcclAgreement::NcclAgreement(const StageTasks& tasks, agree::GroupChannel& channel, const Clock& clock,
                             Communicator& communicator, const AgreementOptions& options)
    : SnapshotAgreement(tasks, channel, clock, agree::MessageKind::Ranges, sizeof(RankRanges)),
      state_(std::make_unique<State>(tasks, of_group(communicator, channel), channel.members(), options)) {}

NcclAgreement::~NcclAgreement() = default;

agree::ChannelNeeds NcclAgreement::needs() {
  return {sizeof(agree::ContributionMessage) + sizeof(RankRanges), 4};
}

void NcclAgreement::begin(const Iteration& iteration, const Arbiter& arbiter) {
  state_->arbiter = arbiter;
  state_->own.begin(arbiter.hint());
  SnapshotAgreement::begin(iteration, arbiter);
}

std::optional<Task> NcclAgreement::poll(const Arbiter& arbiter, PassMask allowed) {
  try {
    const std::optional<Task> task = SnapshotAgreement::poll(arbiter, allowed);
    if (!task && attempts().joined()) look_after();
    return task;
  } catch (...) {
    state_->communicator.abort();
    throw;
  }
}

Time NcclAgreement::next_deadline() const { return state_->search.running() ? kAnyTime : kNever; }

void NcclAgreement::change(const RunnableChange& change) { state_->own.set(change.task, change.runnable); }

void NcclAgreement::take(std::uint32_t from, std::uint64_t attempt, std::span<const std::byte> more) {
  std::memcpy(&state_->ranges[at(from, attempt)], more.data(), sizeof(RankRanges));
}

std::span<const std::byte> NcclAgreement::snapshot() {
  RankRanges& ranges = state_->ranges[at(member(), attempts().current())];
  ranges = state_->own.ranges();
  for (std::uint32_t cls = 0; cls < Hint::kClasses; ++cls) {
    const std::uint32_t begin = state_->own.offset(cls) + ranges[cls].begin;
    const auto bytes = state_->own.bytes().subspan(begin, ranges[cls].end - ranges[cls].begin);
    std::copy(bytes.begin(), bytes.end(), state_->contributed.begin() + begin);
  }
  return std::as_bytes(std::span(ranges));
}

bool NcclAgreement::outcome_known() {
  if (state_->started != attempts().current()) start();
  return !state_->search.running() || state_->search.ended();
}

/// All members have contributed, and each does this with the same.
void NcclAgreement::start() {
  State& state = *state_;
  const std::uint64_t attempt = attempts().current();
  RankRanges common = state.ranges[at(member(), attempt)];
  for (std::uint32_t each = 0; each < members(); ++each) {
    const RankRanges& ranges = state.ranges[at(each, attempt)];
    for (std::uint32_t cls = 0; cls < Hint::kClasses; ++cls) {
      if (ranges[cls].begin > ranges[cls].end || ranges[cls].end > state.own.size(cls))
        reader().refuse(each, "names a task that the stage does not have");
    }
    common = overlap(common, ranges);
    state.asks[each] = contribution(each).ask;
  }
  const PassMask allowed = agree::focus_group(*state.arbiter, state.asks);
  state.windows.look(*state.arbiter, allowed, state.own, common);
  state.started = attempt;
  state.started_at = now();
  if (state.windows.bytes() == 0) return;
  state.windows.gather(state.own, state.contributed, state.search.bytes());
  state.search.start(attempt, state.windows.windows());
}

std::optional<Task> NcclAgreement::choose() {
  State& state = *state_;
  if (state.windows.bytes() == 0) return std::nullopt;
  const std::optional<Task> chosen = state.windows.choose(*state.arbiter, state.search.firsts());
  if (!chosen) return std::nullopt;
  state.arbiter->decided(*chosen);
  state.own.decided(*chosen);
  return chosen;
}

/// While an attempt is open.
void NcclAgreement::look_after() {
  State& state = *state_;
  const Time at = now();
  if (at < state.next_look) return;
  state.next_look = at + state.options.health_interval;
  try {
    state.communicator.check_health();
  } catch (const NcclError& error) {
    throw NcclError(error.code(), awaited());
  }
  if (state.search.running() && at - state.started_at > state.options.patience)
    throw NcclError(ncclRemoteError, awaited());
}

/// What the rank waits for, in errors.
std::string NcclAgreement::awaited() const {
  std::string members_awaited;
  for (std::uint32_t each = 0; each < members(); ++each) {
    if (!attempts().has_contributed(each))
      members_awaited += fmt::format("{}{}", members_awaited.empty() ? "" : ", ", each);
  }
  const std::string attempt =
      fmt::format("{}: attempt {}", state_->communicator.place().name, attempts().current());
  if (members_awaited.empty()) return attempt + " waits for the reduction, which a member has left";
  return fmt::format("{} waits for member {}", attempt, members_awaited);
}

}  // namespace sluice::nccl
