#include "sluice/cuda/ipc_transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "ipc_transport_impl.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/error.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::cuda {
namespace {

/// How often the end of a transport looks whether its neighbours have left.
constexpr auto kLeavingLook = std::chrono::microseconds(100);

std::uint64_t most_messages(std::span<const IpcTraffic> traffic) {
  std::uint64_t words = 0;
  for (const IpcTraffic& each : traffic) words += each.words;
  // Half of the words are offers, half say that a message was taken.
  return words / 2;
}

}  // namespace

IpcTransport::Impl::Impl(const IpcMember& member, const AllGather& all_gather, const IpcOptions& options)
    : pipeline_(member.pipeline),
      stage_(member.stage),
      rank_(member.stage < member.rank_of_stage.size() ? member.rank_of_stage[member.stage] : 0),
      slots_(member.slots),
      clock_(member.clock),
      options_(options),
      connections_(connect(member, all_gather)),
      wake_(connections_.own.sleeper()),
      link_of_stage_(member.pipeline.stages()),
      ends_(ends_of(member.pipeline)),
      sendings_(most_messages(traffic_of(member))),
      receivings_(sendings_.size()),
      offers_(receivings_.size()),
      dones_(sendings_.size()) {
  std::size_t tensors = 0;
  for (const IpcTraffic& each : traffic_of(member)) tensors = std::max<std::size_t>(tensors, each.tensors);
  for (IpcReceiving& receiving : receivings_) {
    receiving.tensors.reserve(tensors);
    receiving.shapes.reserve(tensors);
  }
  for (const auto& link : connections_.links) link_of_stage_[link->stage()] = link.get();
}

IpcTransport::Impl::~Impl() {
  for (const auto& link : connections_.links) link->release();
  if (std::uncaught_exceptions() > exceptions_) abandon();
  if (connections_.own.state() != IpcState::Here) return;
  leave(IpcState::Left);
  const host::SteadyClock clock;
  const Time until = clock.now() + options_.closing;
  while (!all_left() && clock.now() < until) std::this_thread::sleep_for(kLeavingLook);
}

void IpcTransport::Impl::leave(IpcState state) noexcept {
  connections_.own.set_state(state);
  for (const auto& link : connections_.links) link->notify();
}

bool IpcTransport::Impl::all_left() const noexcept {
  return std::all_of(connections_.links.begin(), connections_.links.end(), [](const auto& link) {
    return link->state() != IpcState::Here || link->process_ended();
  });
}

Time IpcTransport::Impl::next_deadline() const {
  const bool looks = options_.sleeps_elsewhere && !connections_.links.empty();
  return pulling_ > 0 || looks ? kAnyTime : kNever;
}

/// Now and then, when nothing else is to be done.
void IpcTransport::Impl::look_after_neighbours() {
  const Time now = clock_.now();
  if (now < next_health_) return;
  next_health_ = now + options_.health_interval;
  for (const auto& link : connections_.links) look_after(*link);
}

/// Throws if the neighbour, or what comes from it, would be waited for in vain.
void IpcTransport::Impl::look_after(const IpcLink& link) const {
  if (link.pulls().oldest() != nullptr) {
    const cudaError_t failure = link.pulls().failure();
    if (failure != cudaSuccess)
      throw CudaError(failure, fmt::format("{}: pulling from {}: {}", where(), peer(link), under_way(link)));
  }
  const bool ended = link.process_ended();
  const IpcState state = link.state();
  // Its last words come first.
  if (link.in().front() != nullptr) return;
  if (state == IpcState::GaveUp)
    throw Error(fmt::format("{}: {} has given up: {}", where(), peer(link), under_way(link)));
  if (state == IpcState::Here && ended)
    throw Error(
        fmt::format("{}: {} has died, its process has ended: {}", where(), peer(link), under_way(link)));
  const bool waited_for = std::any_of(sendings_.begin(), sendings_.end(), [&](const IpcSending& sending) {
    return sending.used && sending.link == &link;
  });
  if (state == IpcState::Left && waited_for)
    throw Error(fmt::format("{}: {} has left too early: {}", where(), peer(link), under_way(link)));
}

/// What passes between the two: a message, or else an edge.
std::string IpcTransport::Impl::under_way(const IpcLink& link) const {
  if (const StreamedMessage* pull = link.pulls().oldest())
    return to_string(pull->id) + ", is on its way from there";
  for (const IpcSending& sending : sendings_) {
    if (sending.used && sending.link == &link) return to_string(sending.id) + ", has not been taken";
  }
  for (std::size_t edge = 0; edge < ends_.size(); ++edge) {
    const auto ends = std::pair(ends_[edge].tail_stage, ends_[edge].head_stage);
    if (ends != std::pair(stage_, link.stage()) && ends != std::pair(link.stage(), stage_)) continue;
    return fmt::format("edge {} (chunk {} to {}) joins it", edge, pipeline_.edges()[edge].from,
                       pipeline_.edges()[edge].to);
  }
  return "nothing is under way";
}

IpcTransport::IpcTransport(const IpcMember& member, const AllGather& all_gather, const IpcOptions& options)
    : impl_(std::make_unique<Impl>(member, all_gather, options)) {}

IpcTransport::~IpcTransport() = default;

Wake& IpcTransport::wake() noexcept { return impl_->wake(); }
void IpcTransport::abandon() noexcept { impl_->abandon(); }

bool IpcTransport::poll(Offer& offer) {
  return impl_->or_abandon([&] { return impl_->poll(offer); });
}
void IpcTransport::accept(const Offer& offer, Slot slot) {
  impl_->or_abandon([&] { impl_->accept(offer, slot); });
}
bool IpcTransport::poll(Arrival& arrival) {
  return impl_->or_abandon([&] { return impl_->poll(arrival); });
}
void IpcTransport::send(const MessageId& id, Slot slot) {
  impl_->or_abandon([&] { impl_->send(id, slot); });
}
bool IpcTransport::poll(SendDone& done) {
  return impl_->or_abandon([&] { return impl_->poll(done); });
}
Time IpcTransport::next_deadline() const { return impl_->next_deadline(); }

}  // namespace sluice::cuda
