#include "control_hub.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sluice/error.hpp"

namespace sluice::process {
namespace {

/// How long a connection may take to say whose it is.
constexpr Duration kIntroduction = std::chrono::seconds(5);
constexpr std::size_t kStrangers = 64;
constexpr std::size_t kNamesSaid = 8;

}  // namespace

ControlHub::ControlHub(std::uint32_t ranks, ControlOptions options, Listener listener, std::uint64_t token)
    : ControlThread(0, ranks, std::move(options)),
      listener_(std::move(listener)),
      token_(token),
      members_(ranks) {}

void ControlHub::collect(std::vector<pollfd>& polled) {
  const auto add = [&polled](const ControlLink& link) {
    const int events = link.idle() ? POLLIN : POLLIN | POLLOUT;
    polled.push_back({link.descriptor(), static_cast<short>(events), 0});
  };
  polled_.clear();
  for (std::uint32_t rank = 1; rank < ranks(); ++rank) {
    if (!members_[rank].link) continue;
    add(*members_[rank].link);
    polled_.push_back(rank);
  }
  if (welcomed_) return;
  polled.push_back({listener_.socket.get(), POLLIN, 0});
  for (const Stranger& stranger : strangers_) add(stranger.link);
}

void ControlHub::serve(std::span<const pollfd> polled) {
  for (std::size_t i = 0; i < polled_.size(); ++i) {
    if (polled[i].revents != 0) serve_member(polled_[i]);
  }
  if (welcomed_) return;
  accept_strangers();
  admit_strangers();
  if (joined_ + 1 == ranks()) welcome_all();
}

void ControlHub::accept_strangers() {
  while (true) {
    Descriptor socket = accept_from(listener_.socket);
    if (!socket.open()) return;
    // The oldest has had its time.
    if (strangers_.size() >= kStrangers + ranks()) strangers_.erase(strangers_.begin());
    prepare(socket, options().stall_timeout);
    strangers_.push_back({ControlLink(std::move(socket)), {}});
  }
}

void ControlHub::admit_strangers() {
  std::erase_if(strangers_, [this](Stranger& stranger) { return admit(stranger); });
}

bool ControlHub::admit(Stranger& stranger) {
  stranger.link.receive();
  try {
    const std::optional<Frame> frame = stranger.link.next();
    if (!frame) return stranger.link.state() != ControlLink::State::Open || stranger.quiet > kIntroduction;
    const Hello hello = decode_hello(*frame);
    if (hello.token != token_ || hello.rank == 0 || hello.rank >= ranks()) return true;
    Member& member = members_[hello.rank];
    if (member.joined) return true;
    member.joined = true;
    ++joined_;
    member.link.emplace(std::move(stranger.link));
    serve_member(hello.rank);
  } catch (const ProtocolError&) {
    // Noise from somebody who does not belong here.
  }
  return true;
}

void ControlHub::welcome_all() {
  welcomed_ = true;
  strangers_.clear();
  listener_.socket.reset();
  broadcast(share(encode(FrameType::Welcome)));
  set_together();
  set_ready();
}

void ControlHub::serve_member(std::uint32_t rank) {
  Member& member = members_[rank];
  if (member.link->receive()) member.quiet = Duration{0};
  take_frames(rank);
  // What it said before it closed has been read: its own cause comes before its death.
  if (member.link && member.link->state() != ControlLink::State::Open) {
    Failure failure = failure_of(*member.link, rank);
    lose(rank);
    declare(std::move(failure));
  }
}

void ControlHub::take_frames(std::uint32_t rank) {
  try {
    while (members_[rank].link) {
      const std::optional<Frame> frame = members_[rank].link->next();
      if (!frame) return;
      take(rank, *frame);
    }
  } catch (const ProtocolError& error) {
    declare(garbage_of(rank, error.what()));
    members_[rank].link->flush();
    lose(rank);
  }
}

void ControlHub::take(std::uint32_t rank, const Frame& frame) {
  Member& member = members_[rank];
  switch (frame.type) {
    case FrameType::Heartbeat:
      member.heartbeat = decode_heartbeat(frame);
      break;
    case FrameType::Gather: {
      Gather share = decode_gather(frame);
      gather(rank, share.sequence, std::move(share.blob));
      break;
    }
    case FrameType::Failed:
      declare(decode_failure(frame, ranks()));
      break;
    case FrameType::Goodbye:
      member.left = true;
      lose(rank);
      break;
    case FrameType::Ping:
      member.link->send(share(encode(Pong{decode_ping(frame).sent, now()})));
      break;
    case FrameType::Report:
      set_report(rank, decode_report(frame));
      break;
    default:
      throw ProtocolError(fmt::format("a control frame of type {}, which only the hub sends",
                                      static_cast<unsigned>(frame.type)));
  }
}

void ControlHub::lose(std::uint32_t rank) {
  members_[rank].link.reset();
  set_gone(rank);
}

void ControlHub::broadcast(const SharedFrame& frame) {
  for (Member& member : members_) {
    if (member.link) member.link->send(frame);
  }
}

void ControlHub::gather(std::uint32_t rank, std::uint64_t sequence, Bytes blob) {
  if (sequence != exchange_ || members_[rank].blob) {
    throw ProtocolError(fmt::format("its share of exchange {} in exchange {}", sequence, exchange_));
  }
  members_[rank].blob = std::move(blob);
  complete_exchange();
}

void ControlHub::complete_exchange() {
  if (std::any_of(members_.begin(), members_.end(), [](const Member& member) { return !member.blob; }))
    return;
  Gathered gathered;
  gathered.sequence = exchange_++;
  for (Member& member : members_) gathered.blobs.push_back(*std::exchange(member.blob, std::nullopt));
  exchanging_ = Duration{0};
  if (ranks() > 1) broadcast(share(encode(gathered)));
  set_gathered(std::move(gathered));
}

bool ControlHub::exchanging() const {
  return std::any_of(members_.begin(), members_.end(),
                     [](const Member& member) { return member.blob.has_value(); });
}

void ControlHub::take_gather(std::uint64_t sequence, Bytes blob) { gather(0, sequence, std::move(blob)); }

void ControlHub::take_failure(Failure failure) { declare(std::move(failure)); }

void ControlHub::take_report(std::string json) { set_report(0, std::move(json)); }

void ControlHub::beat() {
  const SharedFrame frame = share(encode(own_heartbeat()));
  for (Member& member : members_) {
    if (member.link && member.link->idle()) member.link->send(frame);
  }
}

void ControlHub::watch(Duration turn) {
  if (failed()) return;
  watch_start(turn);
  watch_silence(turn);
  watch_progress(turn);
  watch_exchange(turn);
}

void ControlHub::watch_start(Duration turn) {
  if (welcomed_) return;
  for (Stranger& stranger : strangers_) stranger.quiet += turn;
  starting_ += turn;
  if (starting_ <= options().connect_timeout) return;
  const auto absent = [this](std::uint32_t rank) { return rank != 0 && !members_[rank].joined; };
  std::uint32_t first = 1;
  while (!absent(first)) ++first;
  declare({Failure::Kind::Silent, first,
           fmt::format("{} did not come within {:.1f} s", names_of(absent),
                       std::chrono::duration<double>(options().connect_timeout).count())});
}

void ControlHub::watch_silence(Duration turn) {
  for (std::uint32_t rank = 1; rank < ranks(); ++rank) {
    Member& member = members_[rank];
    if (!member.link) continue;
    member.quiet += turn;
    if (member.quiet > options().stall_timeout) declare(silence_of(rank, member.quiet));
  }
}

void ControlHub::watch_progress(Duration turn) {
  bool inside = false;
  bool moved = false;
  const Heartbeat own = own_heartbeat();
  for (Member& member : members_) {
    const Heartbeat& last = &member == &members_.front() ? own : member.heartbeat;
    inside |= last.inside && !member.left;
    moved |= last.progress != member.seen;
    member.seen = last.progress;
  }
  still_ = inside && !moved ? still_ + turn : Duration{0};
  if (still_ <= options().stall_timeout) return;
  // A rank that has stopped stalls the others: it is the one to name.
  const auto quietest = std::max_element(members_.begin(), members_.end(),
                                         [](const Member& a, const Member& b) { return a.quiet < b.quiet; });
  if (quietest->quiet > options().stall_timeout / 2) {
    declare(silence_of(static_cast<std::uint32_t>(quietest - members_.begin()), quietest->quiet));
  } else {
    declare(
        {Failure::Kind::Stalled, 0,
         fmt::format("no progress on any rank for {:.1f} s", std::chrono::duration<double>(still_).count())});
  }
}

void ControlHub::watch_exchange(Duration turn) {
  if (failed() || !exchanging()) return;
  const auto missing = [this](std::uint32_t rank) { return !members_[rank].blob; };
  for (std::uint32_t rank = 1; rank < ranks(); ++rank) {
    if (!members_[rank].left || !missing(rank)) continue;
    declare({Failure::Kind::Failed, rank, name(rank) + " left the run while others exchange with it"});
    return;
  }
  exchanging_ += turn;
  if (exchanging_ <= options().exchange_timeout) return;
  std::uint32_t first = 0;
  while (!missing(first)) ++first;
  declare({Failure::Kind::Stalled, first,
           fmt::format("{} did not come to an exchange of all ranks within {:.1f} s", names_of(missing),
                       std::chrono::duration<double>(options().exchange_timeout).count())});
}

template <typename Missing>
std::string ControlHub::names_of(const Missing& missing) const {
  std::vector<std::string> names;
  std::size_t others = 0;
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
    if (!missing(rank)) continue;
    if (names.size() < kNamesSaid) {
      names.push_back(name(rank));
    } else {
      ++others;
    }
  }
  if (others > 0) names.push_back(fmt::format("{} others", others));
  if (names.size() == 1) return names.front();
  const std::string last = std::move(names.back());
  names.pop_back();
  return fmt::format("{} and {}", fmt::join(names, ", "), last);
}

void ControlHub::flush() {
  for (Member& member : members_) {
    if (member.link) member.link->flush();
  }
}

void ControlHub::spread(const Failure& failure) { broadcast(share(encode(failure))); }

void ControlHub::say_goodbye() { broadcast(share(encode(FrameType::Goodbye))); }

bool ControlHub::part() {
  bool left = false;
  for (Member& member : members_) {
    if (!member.link) continue;
    ControlLink& link = *member.link;
    link.flush();
    if (link.idle()) link.shut();
    if (link.state() == ControlLink::State::Open && link.drain()) {
      left = true;
    } else {
      member.link.reset();
    }
  }
  return left;
}

}  // namespace sluice::process
