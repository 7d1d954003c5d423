#include "listener_line.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "sluice/error.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::ucx {
namespace {

constexpr unsigned kMessage = 1;
constexpr std::uint32_t kLineMagic = 0x4c554a31;
constexpr auto kLineNap = std::chrono::microseconds(200);
constexpr Duration kLongestFlush = std::chrono::seconds(1);

/// As it is sent.
struct WireHeader {
  std::uint32_t magic = kLineMagic;
  Word word = Word::Join;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 0;
  std::uint32_t round = 0;
};

/// The meeting does not depend on what the run itself may use.
Config tcp_only() {
  Config config;
  config.set("TLS", "tcp");
  config.set("NET_DEVICES", "all");
  config.set("SOCKADDR_TLS_PRIORITY", "tcp");
  config.copy_over_tcp();
  return config;
}

}  // namespace

struct ListenerLine::Saying {
  WireHeader header;
  std::vector<std::byte> bytes;
  bool done = false;
};

ListenerLine::ListenerLine(const process::ProcessPlace& place, Heard heard)
    : place_(place), heard_(std::move(heard)), context_(UCP_FEATURE_AM, tcp_only()), worker_(context_) {
  worker_.on_message(kMessage, &ListenerLine::received, this);
}

ListenerLine::~ListenerLine() {
  const host::SteadyClock clock;
  const Time deadline = clock.now() + kLongestFlush;
  const auto unheard = [](const auto& each) { return each->status == UCS_OK && each->unheard > 0; };
  while (std::any_of(connections_.begin(), connections_.end(), unheard) && clock.now() < deadline) rest();
  const ucp_request_param_t param{};
  finish(ucp_worker_flush_nbx(worker_.get(), &param), deadline);
  for (const auto& connection : connections_) close(*connection, deadline);
}

std::string ListenerLine::address() const { return place_.host + ":" + std::to_string(place_.port); }

ucp_ep_h ListenerLine::connect(ucp_ep_params_t params, ucs_status_t& status) {
  auto connection = std::make_unique<Connection>();
  params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {&ListenerLine::failed, connection.get()};
  status = ucp_ep_create(worker_.get(), &params, &connection->endpoint);
  if (status != UCS_OK) return nullptr;
  connections_.push_back(std::move(connection));
  return connections_.back()->endpoint;
}

void ListenerLine::disconnect(ucp_ep_h endpoint) noexcept {
  Connection* const connection = find(endpoint);
  if (connection == nullptr) return;
  close(*connection, host::SteadyClock().now() + kLongestFlush);
  std::erase_if(connections_, [connection](const auto& each) { return each.get() == connection; });
}

ListenerLine::Connection* ListenerLine::find(ucp_ep_h endpoint) const {
  const auto found = std::find_if(connections_.begin(), connections_.end(),
                                  [&](const auto& each) { return each->endpoint == endpoint; });
  return found == connections_.end() ? nullptr : found->get();
}

ucs_status_t ListenerLine::status(ucp_ep_h endpoint) const {
  const Connection* const connection = find(endpoint);
  return connection == nullptr ? UCS_ERR_NOT_CONNECTED : connection->status;
}

void ListenerLine::failed(void* connection, ucp_ep_h /*endpoint*/, ucs_status_t status) {
  static_cast<Connection*>(connection)->status = status;
}

void ListenerLine::say(ucp_ep_h to, Word word, std::uint32_t round, std::span<const std::byte> bytes) {
  std::erase_if(sayings_, [](const auto& saying) { return saying->done; });
  const bool answered = word == Word::Welcome || word == Word::All || word == Word::Refused;
  if (Connection* const connection = find(to); connection != nullptr && answered) ++connection->unheard;
  Saying& saying = *sayings_.emplace_back(std::make_unique<Saying>());
  saying.header = {kLineMagic, word, place_.rank, place_.ranks, round};
  saying.bytes.assign(bytes.begin(), bytes.end());
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  // The answer goes to where the message came from.
  param.flags = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY;
  param.cb.send = &ListenerLine::said;
  param.user_data = &saying;
  const ucs_status_ptr_t request = ucp_am_send_nbx(to, kMessage, &saying.header, sizeof saying.header,
                                                   saying.bytes.data(), saying.bytes.size(), &param);
  // A connection that fails says so itself.
  if (!UCS_PTR_IS_PTR(request)) saying.done = true;
}

void ListenerLine::said(void* request, ucs_status_t /*status*/, void* saying) {
  static_cast<Saying*>(saying)->done = true;
  ucp_request_free(request);
}

ucs_status_t ListenerLine::received(void* self, const void* header, std::size_t header_length, void* data,
                                    std::size_t length, const ucp_am_recv_param_t* param) {
  auto& line = *static_cast<ListenerLine*>(self);
  WireHeader wire;
  // What is not of Sluice is not answered.
  if (header_length != sizeof wire || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return UCS_OK;
  std::memcpy(&wire, header, sizeof wire);
  if (wire.magic != kLineMagic || (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) == 0) return UCS_OK;
  const auto* bytes = static_cast<const std::byte*>(data);
  try {
    line.hear({wire.word, wire.rank, wire.ranks, wire.round, {bytes, bytes + length}}, param->reply_ep);
  } catch (...) {
    if (line.error_ == nullptr) line.error_ = std::current_exception();
  }
  return UCS_OK;
}

void ListenerLine::hear(Said said, ucp_ep_h from) {
  if (said.word == Word::Heard) {
    if (Connection* const connection = find(from); connection != nullptr) --connection->unheard;
    return;
  }
  if (said.word == Word::Welcome || said.word == Word::All || said.word == Word::Refused)
    say(from, Word::Heard, said.round, {});
  heard_(std::move(said), from);
}

void ListenerLine::rest() noexcept {
  if (ucp_worker_progress(worker_.get()) == 0) std::this_thread::sleep_for(kLineNap);
}

void ListenerLine::progress() {
  rest();
  if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ListenerLine::close(Connection& connection, Time deadline) noexcept {
  if (connection.endpoint == nullptr) return;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  finish(ucp_ep_close_nbx(std::exchange(connection.endpoint, nullptr), &param), deadline);
}

void ListenerLine::finish(ucs_status_ptr_t request, Time deadline) noexcept {
  if (!UCS_PTR_IS_PTR(request)) return;
  const host::SteadyClock clock;
  while (ucp_request_check_status(request) == UCS_INPROGRESS && clock.now() < deadline) rest();
  ucp_request_free(request);
}

}  // namespace sluice::ucx
