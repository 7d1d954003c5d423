#include "plane.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "sluice/error.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/process/bytes.hpp"

namespace sluice::ucx {
namespace {

/// A peer can be this far ahead with runs that are not open here.
constexpr std::size_t kMostEarly = 4096;
constexpr Duration kNap = std::chrono::milliseconds(10);
constexpr std::size_t kLongestCopiedHeader = std::max(kHeaderBytes, kChannelHeaderBytes);

/// What a rank tells the others of itself.
struct Whereabouts {
  HostIdentity host;
  /// Of the worker: for ranks of the same host, and for others.
  std::vector<std::byte> address;
  std::vector<std::byte> network_address;
};

std::vector<std::byte> pack(const Whereabouts& whereabouts) {
  process::ByteWriter writer;
  writer.put(whereabouts.host.network);
  writer.put_text(whereabouts.host.boot);
  writer.put_all(std::span(whereabouts.address));
  writer.put_all(std::span(whereabouts.network_address));
  return writer.bytes();
}

Whereabouts unpack(std::span<const std::byte> bytes) {
  process::ByteReader reader(bytes);
  Whereabouts whereabouts;
  whereabouts.host.network = reader.get<std::uint64_t>();
  whereabouts.host.boot = reader.get_text();
  whereabouts.address = reader.get_all<std::byte>();
  whereabouts.network_address = reader.get_all<std::byte>();
  return whereabouts;
}

Config plane_config() {
  Config config;
  config.copy_over_tcp();
  return config;
}

}  // namespace

/// A small message that UCX may still have to send.
struct Plane::Copy {
  Plane* plane = nullptr;
  std::uint32_t rank = 0;
  std::array<std::byte, kLongestCopiedHeader> header{};
  std::vector<std::byte> payload;
  Copy* next = nullptr;
};

Plane::Plane(process::Bootstrap& bootstrap, PlaneOptions options)
    : options_(std::move(options)),
      rank_(bootstrap.rank()),
      peers_(bootstrap.ranks()),
      pool_(options_.memory != nullptr ? options_.memory : std::make_shared<HostMemory>()),
      context_(UCP_FEATURE_AM | UCP_FEATURE_WAKEUP, plane_config()),
      worker_(context_),
      longest_header_(worker_.longest_header()),
      wake_(worker_),
      second_wake_(worker_) {
  listen<MessageKind::Pipeline>();
  listen<MessageKind::Taken>();
  listen<MessageKind::Channel>();
  listen<MessageKind::Leaving>();
  exchange_addresses(bootstrap);
}

Plane::~Plane() {
  closing_ = true;
  quiet_.emplace();
  const Time deadline = host::SteadyClock().now() + options_.closing;
  drop_early();
  if (leave(deadline)) flush(deadline);
}

void Plane::exchange_addresses(process::Bootstrap& bootstrap) {
  const HostIdentity here = this_host();
  const auto all = bootstrap.all_gather(pack({here, worker_.address(false), worker_.address(true)}));
  for (std::uint32_t rank = 0; rank < peers_.size(); ++rank) {
    Peer& peer = peers_[rank];
    peer.plane = this;
    peer.rank = rank;
    try {
      Whereabouts there = unpack(all[rank]);
      peer.address = std::move(there.host == here ? there.address : there.network_address);
    } catch (const ProtocolError& error) {
      throw ProtocolError("rank " + std::to_string(rank) + ": " + error.what());
    }
  }
}

template <MessageKind kind>
void Plane::listen() {
  worker_.on_message(static_cast<unsigned>(kind), &Plane::received<kind>, this);
}

bool Plane::progress() {
  const bool happened = ucp_worker_progress(worker_.get()) != 0;
  if (happened) {
    wake_.happened();
    second_wake_.happened();
  }
  if (noted_ != nullptr) {
    abandoned_ = true;
    std::rethrow_exception(std::exchange(noted_, nullptr));
  }
  return happened;
}

void Plane::share(std::mutex* turn) noexcept {
  wake_.give_up_asleep(turn);
  second_wake_.give_up_asleep(turn);
}

void Plane::note(std::exception_ptr error) noexcept {
  if (noted_ == nullptr && !closing_) noted_ = std::move(error);
}

void Plane::note_failed(std::uint32_t rank, const std::string& what, ucs_status_t status) {
  note(std::make_exception_ptr(
      Error("rank " + std::to_string(rank) + ": " + what + ": " + ucs_status_string(status))));
}

ucp_ep_h Plane::endpoint(std::uint32_t rank) {
  Peer& peer = peers_[rank];
  if (peer.status != UCS_OK) {
    throw Error("rank " + std::to_string(rank) +
                ": its connection has failed: " + ucs_status_string(peer.status));
  }
  if (peer.endpoint != nullptr) return peer.endpoint;
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(peer.address.data());
  // UCX refuses shared memory with UCP_ERR_HANDLING_MODE_PEER. The handler is called for broken connections
  // in this mode too.
  params.err_mode = UCP_ERR_HANDLING_MODE_NONE;
  params.err_handler = {&Plane::failed, &peer};
  const ucs_status_t status = ucp_ep_create(worker_.get(), &params, &peer.endpoint);
  if (status == UCS_OK) return peer.endpoint;
  peer.endpoint = nullptr;
  throw Error("rank " + std::to_string(rank) + ": cannot be reached: " + ucs_status_string(status));
}

void Plane::failed(void* peer, ucp_ep_h /*endpoint*/, ucs_status_t status) {
  auto& failed = *static_cast<Peer*>(peer);
  failed.status = status;
  if (failed.left) return;
  failed.plane->note_failed(failed.rank, "its connection has failed", status);
}

template <MessageKind kind>
ucs_status_t Plane::received(void* self, const void* header, std::size_t header_length, void* data,
                             std::size_t length, const ucp_am_recv_param_t* param) {
  auto& plane = *static_cast<Plane*>(self);
  const Incoming message{{static_cast<const std::byte*>(header), header_length},
                         data,
                         length,
                         (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0};
  try {
    if (kind == MessageKind::Leaving) {
      plane.note_left(message);
    } else if (!plane.closing_ && plane.deliver(kind, message)) {
      return UCS_INPROGRESS;
    }
  } catch (...) {
    plane.note(std::current_exception());
  }
  return UCS_OK;
}

bool Plane::deliver(MessageKind kind, const Incoming& message) {
  return kind == MessageKind::Channel ? deliver_channel(message) : deliver_message(kind, message);
}

void Plane::check_source(std::uint64_t job, std::uint32_t source) const {
  if (job != options_.job) throw ProtocolError("it belongs to another job");
  if (source >= ranks()) throw ProtocolError("there is no such rank");
}

bool Plane::deliver_message(MessageKind kind, const Incoming& message) {
  const MessageHeader header = decode(message.header);
  try {
    check_source(header.job, header.source);
    const auto found = messages_.find(header.run);
    if (found == messages_.end()) return hold(kind, header.run, message);
    if (kind == MessageKind::Pipeline) return found->second->take(header, message);
    found->second->taken(header);
    return false;
  } catch (const ProtocolError& error) {
    throw ProtocolError("rank " + std::to_string(rank_) + ": message of rank " +
                        std::to_string(header.source) + " (" + to_string(header.id) + ", run " +
                        std::to_string(header.run) + "): " + error.what());
  }
}

bool Plane::deliver_channel(const Incoming& message) {
  const ChannelHeader header = decode_channel(message.header);
  try {
    check_source(header.job, header.source);
    if (message.rendezvous) throw ProtocolError("it was not sent at once");
    const auto found = channels_.find(header.run);
    if (found == channels_.end()) return hold(MessageKind::Channel, header.run, message);
    found->second->take(header, {static_cast<const std::byte*>(message.data), message.length});
    return false;
  } catch (const ProtocolError& error) {
    throw ProtocolError("rank " + std::to_string(rank_) + ": group message of rank " +
                        std::to_string(header.source) + " (run " + std::to_string(header.run) +
                        "): " + error.what());
  }
}

/// A peer may be ahead with a run that is not open here yet; what comes for one that has ended is dropped.
bool Plane::hold(MessageKind kind, std::uint32_t run, const Incoming& message) {
  const std::set<std::uint32_t>& closed = kind == MessageKind::Channel ? closed_channels_ : closed_messages_;
  if (closed.count(run) > 0) return false;
  if (early_.size() == kMostEarly) throw ProtocolError("no such run is open here");
  Early early;
  early.kind = kind;
  early.run = run;
  early.header.assign(message.header.begin(), message.header.end());
  early.length = message.length;
  if (message.rendezvous) {
    early.descriptor = message.data;
  } else {
    const auto* bytes = static_cast<const std::byte*>(message.data);
    early.payload.assign(bytes, bytes + message.length);
  }
  early_.push_back(std::move(early));
  return message.rendezvous;
}

void Plane::open(std::uint32_t run, MessageSink& sink) {
  if (!messages_.emplace(run, &sink).second)
    throw ConfigError("run", std::to_string(run) + " has a transport already");
  closed_messages_.erase(run);
  deliver_early(run, false);
}

void Plane::open(std::uint32_t run, ChannelSink& sink) {
  if (!channels_.emplace(run, &sink).second)
    throw ConfigError("run", std::to_string(run) + " has a channel already");
  closed_channels_.erase(run);
  deliver_early(run, true);
}

void Plane::deliver_early(std::uint32_t run, bool channel) {
  const auto of_run = [&](const Early& early) {
    return early.run == run && (early.kind == MessageKind::Channel) == channel;
  };
  std::vector<Early> due;
  for (Early& early : early_) {
    if (of_run(early)) due.push_back(std::move(early));
  }
  std::erase_if(early_, of_run);
  for (Early& early : due) {
    const bool rendezvous = early.descriptor != nullptr;
    bool kept = false;
    try {
      kept = deliver(early.kind, {early.header, rendezvous ? early.descriptor : early.payload.data(),
                                  early.length, rendezvous});
    } catch (...) {
      note(std::current_exception());
    }
    if (rendezvous && !kept) ucp_am_data_release(worker_.get(), early.descriptor);
  }
}

void Plane::close_messages(std::uint32_t run) noexcept {
  messages_.erase(run);
  closed_messages_.insert(run);
}

void Plane::close_channel(std::uint32_t run) noexcept {
  channels_.erase(run);
  closed_channels_.insert(run);
}

void Plane::keep(std::unique_ptr<Remains> remains) {
  std::erase_if(remains_, [](const auto& old) { return old->done(); });
  if (!remains->done()) remains_.push_back(std::move(remains));
}

Plane::Copy& Plane::free_copy() {
  if (free_copies_ == nullptr) {
    Copy& added = *copies_.emplace_back(std::make_unique<Copy>());
    added.plane = this;
    return added;
  }
  return *std::exchange(free_copies_, free_copies_->next);
}

void Plane::send_copy(MessageKind kind, std::uint32_t rank, std::span<const std::byte> header,
                      std::span<const std::byte> payload) {
  const ucp_ep_h to = endpoint(rank);
  Copy& copy = free_copy();
  copy.rank = rank;
  std::copy(header.begin(), header.end(), copy.header.begin());
  copy.payload.assign(payload.begin(), payload.end());
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = &Plane::copy_sent;
  param.user_data = &copy;
  const ucs_status_ptr_t request =
      ucp_am_send_nbx(to, static_cast<unsigned>(kind), copy.header.data(), header.size(), copy.payload.data(),
                      payload.size(), &param);
  if (!UCS_PTR_IS_PTR(request)) finish(copy, UCS_PTR_STATUS(request));
}

void Plane::copy_sent(void* request, ucs_status_t status, void* copy) {
  auto& sent = *static_cast<Copy*>(copy);
  sent.plane->finish(sent, status);
  ucp_request_free(request);
}

void Plane::finish(Copy& copy, ucs_status_t status) noexcept {
  if (UCS_STATUS_IS_ERR(status)) note_failed(copy.rank, "a message cannot be sent to it", status);
  copy.next = std::exchange(free_copies_, &copy);
}

void Plane::drop_early() noexcept {
  for (const Early& early : early_) {
    if (early.descriptor != nullptr) ucp_am_data_release(worker_.get(), early.descriptor);
  }
  early_.clear();
}

void Plane::note_left(const Incoming& message) {
  const ChannelHeader header = decode_channel(message.header);
  check_source(header.job, header.source);
  peers_[header.source].left = true;
}

/// Messages to a rank that has closed its end are lost, so no rank closes before its peers have got theirs.
/// @return whether all have said so
bool Plane::leave(Time deadline) noexcept {
  if (abandoned_) return false;
  std::array<std::byte, kChannelHeaderBytes> header;
  encode(ChannelHeader{options_.job, 0, rank_, 0}, header);
  const auto awaited = [](const Peer& peer) {
    return peer.endpoint != nullptr && peer.status == UCS_OK && !peer.left;
  };
  for (const Peer& peer : peers_) {
    if (peer.endpoint != nullptr && peer.status == UCS_OK)
      send_copy(MessageKind::Leaving, peer.rank, header, {});
  }
  const host::SteadyClock clock;
  while (std::any_of(peers_.begin(), peers_.end(), awaited)) {
    if (clock.now() >= deadline) return false;
    rest(deadline);
  }
  return true;
}

void Plane::rest(Time deadline) noexcept {
  if (ucp_worker_progress(worker_.get()) != 0) return;
  wake_.wait_until(std::min(deadline, host::SteadyClock().now() + kNap));
}

void Plane::wait_for(ucs_status_ptr_t request, Time deadline) noexcept {
  if (!UCS_PTR_IS_PTR(request)) return;
  const host::SteadyClock clock;
  while (ucp_request_check_status(request) == UCS_INPROGRESS && clock.now() < deadline) rest(deadline);
  ucp_request_free(request);
}

void Plane::settle(const std::function<bool()>& given_up) {
  const ucp_request_param_t param{};
  ucs_status_ptr_t request = ucp_worker_flush_nbx(worker_.get(), &param);
  if (!UCS_PTR_IS_PTR(request)) return;
  while (ucp_request_check_status(request) == UCS_INPROGRESS && !given_up())
    rest(host::SteadyClock().now() + kNap);
  ucp_request_free(request);
}

void Plane::flush(Time deadline) noexcept {
  const ucp_request_param_t param{};
  wait_for(ucp_worker_flush_nbx(worker_.get(), &param), deadline);
}

}  // namespace sluice::ucx
