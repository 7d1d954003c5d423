#include "control_member.hpp"

#include <fmt/format.h>

#include <utility>

#include "sluice/error.hpp"

namespace sluice::process {
namespace {

constexpr std::uint32_t kPings = 8;
constexpr Duration kAnswer = std::chrono::seconds(1);
/// The hub gives up on absent ranks first, and says so.
constexpr Duration kAfterHub = std::chrono::seconds(5);

}  // namespace

ControlMember::ControlMember(std::uint32_t rank, std::uint32_t ranks, ControlOptions options,
                             const std::string& host, std::uint16_t port, std::uint64_t token)
    : ControlThread(rank, ranks, std::move(options)) {
  Descriptor socket = connect_to(host, port, this->options().connect_timeout);
  prepare(socket, this->options().stall_timeout);
  link_.emplace(std::move(socket));
  link_->send(share(encode(Hello{token, rank})));
}

void ControlMember::collect(std::vector<pollfd>& polled) {
  if (alone()) return;
  const int events = link_->idle() ? POLLIN : POLLIN | POLLOUT;
  polled.push_back({link_->descriptor(), static_cast<short>(events), 0});
}

void ControlMember::serve(std::span<const pollfd> polled) {
  if (alone() || polled.empty() || polled.front().revents == 0) return;
  if (link_->receive()) quiet_ = Duration{0};
  take_frames();
  if (alone() || link_->state() == ControlLink::State::Open) return;
  // What the hub said before it closed has been read.
  Failure failure = failure_of(*link_, 0);
  link_.reset();
  if (own_failure_) failure = *own_failure_;
  declare(std::move(failure));
}

void ControlMember::take_frames() {
  try {
    while (!alone()) {
      const std::optional<Frame> frame = link_->next();
      if (!frame) return;
      take(*frame);
    }
  } catch (const ProtocolError& error) {
    link_.reset();
    declare(garbage_of(0, error.what()));
  }
}

void ControlMember::take(const Frame& frame) {
  switch (frame.type) {
    case FrameType::Welcome:
      welcome_ = true;
      set_together();
      ping();
      break;
    case FrameType::Heartbeat:
      break;
    case FrameType::Gathered:
      set_gathered(decode_gathered(frame, ranks()));
      break;
    case FrameType::Failed:
      own_failure_.reset();
      declare(decode_failure(frame, ranks()));
      break;
    case FrameType::Goodbye:
      link_.reset();
      if (own_failure_) declare(*own_failure_);
      set_hub_left();
      break;
    case FrameType::Pong:
      take_pong(decode_pong(frame));
      break;
    default:
      throw ProtocolError(fmt::format("a control frame of type {}, which only ranks send to the hub",
                                      static_cast<unsigned>(frame.type)));
  }
}

void ControlMember::ping() { link_->send(share(encode(Ping{now()}))); }

/// The hub's clock was read somewhere within the round trip: the shortest one tells most.
void ControlMember::take_pong(const Pong& pong) {
  const Time at = now();
  const Duration trip = at - pong.sent;
  if (trip < shortest_trip_) {
    shortest_trip_ = trip;
    set_offset(pong.there - (pong.sent + trip / 2));
  }
  if (++pings_ < kPings) {
    ping();
  } else {
    set_ready();
  }
}

void ControlMember::take_gather(std::uint64_t sequence, Bytes blob) {
  if (!alone()) link_->send(share(encode_gather(sequence, blob)));
}

void ControlMember::take_failure(Failure failure) {
  if (failed()) return;
  if (alone()) {
    declare(std::move(failure));
    return;
  }
  link_->send(share(encode(failure)));
  own_failure_ = std::move(failure);
}

void ControlMember::take_report(std::string json) {
  if (!alone()) link_->send(share(encode_report(json)));
}

void ControlMember::beat() {
  // Behind a long frame it would only wait; the hub hears of this rank by the frame itself.
  if (!alone() && link_->idle()) link_->send(share(encode(own_heartbeat())));
}

void ControlMember::watch(Duration turn) {
  if (failed() || alone()) return;
  quiet_ += turn;
  if (quiet_ > options().stall_timeout) declare(silence_of(0, quiet_));
  if (own_failure_ && (unanswered_ += turn) > kAnswer) declare(*own_failure_);
  if (welcome_) return;
  waiting_ += turn;
  if (waiting_ > options().connect_timeout + kAfterHub)
    declare({Failure::Kind::Failed, rank(), name(0) + " did not let " + name(rank()) + " take part"});
}

void ControlMember::flush() {
  if (!alone()) link_->flush();
}

void ControlMember::spread(const Failure& failure) {
  // The hub says itself what it has found; it may not know that it was silent.
  if (!alone() && failure.kind == Failure::Kind::Silent && failure.rank == 0)
    link_->send(share(encode(failure)));
}

void ControlMember::say_goodbye() {
  if (!alone()) link_->send(share(encode(FrameType::Goodbye)));
}

bool ControlMember::part() {
  if (alone()) return false;
  link_->flush();
  if (link_->idle()) link_->shut();
  if (link_->state() == ControlLink::State::Open && link_->drain()) return true;
  link_.reset();
  return false;
}

}  // namespace sluice::process
