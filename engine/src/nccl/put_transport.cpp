#include "sluice/nccl/put_transport.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <utility>

#include "put_transport_impl.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/error.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::nccl {
namespace {

/// How often the end of a transport looks whether its puts are over.
constexpr auto kLeavingLook = std::chrono::microseconds(100);
/// A neighbour may be one iteration ahead.
constexpr std::size_t kIterations = 2;
/// On each edge between two ranks one sends offers to the other, and grants.
constexpr std::size_t kKinds = 2;
/// A rank may leave, and give up then.
constexpr std::size_t kFarewells = 2;

/// Most tensors that a message of the stage's edges has.
std::size_t most_tensors(const PutMember& member, const std::vector<cuda::EdgeEnds>& ends) {
  std::size_t most = 0;
  for (const cuda::EdgeEnds& edge : ends) {
    if (edge.tail_stage == member.stage)
      most = std::max(most, edge.outgoing(member.slots, Direction::Activation, 0).size());
    if (edge.head_stage == member.stage)
      most = std::max(most, edge.incoming(member.slots, Direction::Activation, 0).size());
  }
  return most;
}

/// Most messages that the stage sends, or receives, and has not finished with: each edge has one of the two
/// directions each way.
std::size_t most_messages(const PutMember& member, const std::vector<cuda::EdgeEnds>& ends) {
  std::size_t at_ends = 0;
  for (const cuda::EdgeEnds& edge : ends)
    at_ends += (edge.tail_stage == member.stage ? 1 : 0) + (edge.head_stage == member.stage ? 1 : 0);
  return at_ends * kIterations * member.pipeline.microbatches();
}

std::size_t word_bytes(std::size_t tensors) {
  return sizeof(PutWord) + tensors * std::max(sizeof(TensorShape), sizeof(std::uint64_t));
}

}  // namespace

std::optional<std::string> connections_warning() {
  const char* const value = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  if (value == nullptr || std::string_view(value) != "1") return std::nullopt;
  return "CUDA_DEVICE_MAX_CONNECTIONS=1 puts all streams of a device into one queue, where compute stands "
         "behind the waits of the NCCL transport: unset it, or set it to 8 or more";
}

agree::ChannelNeeds PutTransport::needs(const Pipeline& pipeline, std::span<const cuda::EdgeLayout> layouts) {
  std::size_t tensors = 0;
  for (const cuda::EdgeLayout& layout : layouts) tensors = std::max(tensors, layout.size());
  return {word_bytes(tensors),
          pipeline.edges().size() * kKinds * kIterations * pipeline.microbatches() + kFarewells};
}

PutTransport::Impl::Impl(const PutMember& member, const cuda::AllGather& all_gather,
                         const PutOptions& options)
    : pipeline_(member.pipeline),
      stage_(member.stage),
      ranks_(member.rank_of_stage.begin(), member.rank_of_stage.end()),
      slots_(member.slots),
      messages_(member.messages),
      clock_(member.clock),
      options_(options),
      ends_(cuda::ends_of(member.pipeline)),
      connections_(connect(member, ends_, all_gather, options.patience)),
      word_(word_bytes(most_tensors(member, ends_))),
      neighbour_(member.pipeline.stages()),
      left_(member.pipeline.stages()),
      sendings_(most_messages(member, ends_)),
      receivings_(sendings_.size()),
      offers_(receivings_.size()),
      dones_(sendings_.size()) {
  const std::size_t tensors = most_tensors(member, ends_);
  for (PutSending& sending : sendings_) sending.places.reserve(tensors);
  for (PutReceiving& receiving : receivings_) receiving.shapes.reserve(tensors);
  for (const cuda::EdgeEnds& edge : ends_) {
    if (edge.tail_stage == edge.head_stage) continue;
    if (edge.tail_stage == stage_) neighbour_[edge.head_stage] = true;
    if (edge.head_stage == stage_) neighbour_[edge.tail_stage] = true;
  }
}

PutTransport::Impl::~Impl() {
  if (std::uncaught_exceptions() > exceptions_) abandon();
  if (abandoned_) return;
  const host::SteadyClock clock;
  const Time until = clock.now() + options_.closing;
  try {
    finish_puts(until);
    say_to_all(PutWord::Kind::Left);
    leave(until);
  } catch (const std::exception&) {
    abandon();
  }
}

/// @throws Error if it takes longer
void PutTransport::Impl::finish_puts(Time until) {
  const host::SteadyClock clock;
  Arrival arrival;
  while (puts_under_way()) {
    look();
    while (take_arrival(arrival)) {
    }
    look_after_neighbours();
    if (clock.now() > until) throw Error(where() + ": the messages under way do not end");
    std::this_thread::sleep_for(kLeavingLook);
  }
}

/// In the same order on all ranks: each communicator ends with the other one's.
void PutTransport::Impl::leave(Time until) {
  const host::SteadyClock clock;
  const auto end = [&](auto& line) {
    if (line == nullptr) return;
    line->line().set_patience(std::max(until - clock.now(), Time::zero()));
    line.reset();
  };
  for (std::size_t way = 0; way < connections_.senders.size(); ++way) {
    end(connections_.senders[way]);
    end(connections_.receivers[way]);
  }
}

void PutTransport::Impl::abandon() noexcept {
  if (abandoned_) return;
  abandoned_ = true;
  try {
    say_to_all(PutWord::Kind::GaveUp);
  } catch (const std::exception&) {
    // The neighbours find out that this rank is gone.
  }
  connections_.abort();
}

bool PutTransport::Impl::puts_under_way() const noexcept { return granted_ > 0 || receiving_ > 0; }

Time PutTransport::Impl::next_deadline() const {
  if (puts_under_way()) return kAnyTime;
  return sending_ > 0 ? next_health_ : kNever;
}

/// Now and then, when nothing else is to be done.
void PutTransport::Impl::look_after_neighbours() {
  const Time now = clock_.now();
  if (now < next_health_) return;
  next_health_ = now + options_.health_interval;
  for (const auto& sender : connections_.senders) {
    if (sender != nullptr) sender->line().check_health();
  }
  for (const auto& receiver : connections_.receivers) {
    if (receiver != nullptr) receiver->line().check_health();
  }
  if (copies_.oldest() == nullptr) return;
  if (const cudaError_t failure = copies_.failure(); failure != cudaSuccess)
    throw cuda::CudaError(failure, where() + ": copying between two of its chunks");
}

/// What passes between the two: a message, or else an edge.
std::string PutTransport::Impl::under_way(StageId with) const {
  for (const auto& receiver : connections_.receivers) {
    const PutReceiving* message = receiver == nullptr ? nullptr : receiver->oldest();
    if (message != nullptr && message->from == with)
      return to_string(message->id) + ", is on its way from there";
  }
  for (const PutSending& sending : sendings_) {
    if (sending.used && ends_of(sending.id).receiver(sending.id.direction) == with)
      return to_string(sending.id) + ", has not been taken";
  }
  for (EdgeId edge = 0; edge < ends_.size(); ++edge) {
    const auto ends = std::pair(ends_[edge].tail_stage, ends_[edge].head_stage);
    if (ends == std::pair(stage_, with) || ends == std::pair(with, stage_))
      return name_of_way(pipeline_, edge, Direction::Activation) + " join it";
  }
  return "nothing is under way";
}

PutTransport::PutTransport(const PutMember& member, const cuda::AllGather& all_gather,
                           const PutOptions& options)
    : impl_(std::make_unique<Impl>(member, all_gather, options)) {}

PutTransport::~PutTransport() = default;

void PutTransport::abandon() noexcept { impl_->abandon(); }

bool PutTransport::poll(Offer& offer) {
  return impl_->or_abandon([&] { return impl_->poll(offer); });
}
void PutTransport::accept(const Offer& offer, Slot slot) {
  impl_->or_abandon([&] { impl_->accept(offer, slot); });
}
bool PutTransport::poll(Arrival& arrival) {
  return impl_->or_abandon([&] { return impl_->poll(arrival); });
}
void PutTransport::send(const MessageId& id, Slot slot) {
  impl_->or_abandon([&] { impl_->send(id, slot); });
}
bool PutTransport::poll(SendDone& done) {
  return impl_->or_abandon([&] { return impl_->poll(done); });
}
Time PutTransport::next_deadline() const { return impl_->next_deadline(); }

}  // namespace sluice::nccl
