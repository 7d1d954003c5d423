#include "listener_hub.hpp"

#include <algorithm>
#include <utility>

#include "listener_address.hpp"
#include "sluice/error.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/process/bytes.hpp"

namespace sluice::ucx {

ListenerHub::ListenerHub(const process::ProcessPlace& place, Duration timeout)
    : timeout_(timeout),
      line_(place, [this](Said said, ucp_ep_h from) { heard(std::move(said), from); }),
      guests_(place.ranks) {
  listen();
  try {
    wait_for_all("did not come", [](const Guest& guest) { return guest.endpoint != nullptr; });
  } catch (...) {
    ucp_listener_destroy(listener_);
    throw;
  }
  for (std::size_t rank = 1; rank < guests_.size(); ++rank)
    line_.say(guests_[rank].endpoint, Word::Welcome, 0, {});
}

ListenerHub::~ListenerHub() { ucp_listener_destroy(listener_); }

void ListenerHub::listen() {
  const SocketAddress address = any_address(line_.place());
  ucp_listener_params_t params{};
  params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  params.sockaddr = address.view();
  params.conn_handler = {&ListenerHub::asked, this};
  ucs_status_t status = UCS_OK;
  {
    const QuietUcx quiet;
    status = ucp_listener_create(line_.worker(), &params, &listener_);
  }
  if (status == UCS_OK) return;
  throw Error("rank 0 cannot listen at " + line_.address() + ": " +
              (status == UCS_ERR_BUSY ? "the port is in use" : ucs_status_string(status)));
}

void ListenerHub::asked(ucp_conn_request_h request, void* self) {
  auto& hub = *static_cast<ListenerHub*>(self);
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
  params.conn_request = request;
  ucs_status_t status = UCS_OK;
  hub.line_.connect(params, status);
}

void ListenerHub::heard(Said said, ucp_ep_h from) {
  if (said.word == Word::Join) return join(said, from);
  const bool known = said.rank < guests_.size() && guests_[said.rank].endpoint == from;
  if (said.word != Word::Bytes || !known) throw ProtocolError("a process spoke out of turn in the meeting");
  Guest& guest = guests_[said.rank];
  if (said.round != round_ || guest.bytes) {
    refuse("rank " + std::to_string(said.rank) + " is in exchange " + std::to_string(said.round) +
           ", rank 0 in " + std::to_string(round_));
  }
  guest.bytes = std::move(said.bytes);
}

void ListenerHub::join(const Said& said, ucp_ep_h from) {
  strangers_.push_back(from);
  const std::string rank = "rank " + std::to_string(said.rank);
  if (said.ranks != line_.place().ranks) {
    refuse(rank + " was started with " + std::to_string(said.ranks) + " ranks, rank 0 with " +
           std::to_string(line_.place().ranks));
  }
  if (said.rank >= guests_.size())
    refuse(rank + " does not exist among " + std::to_string(guests_.size()) + " ranks");
  if (said.rank == 0 || guests_[said.rank].endpoint != nullptr) refuse("two processes are " + rank);
  strangers_.pop_back();
  guests_[said.rank].endpoint = from;
}

void ListenerHub::refuse(const std::string& reason) {
  const auto text = std::as_bytes(std::span(reason));
  for (const Guest& guest : guests_) {
    if (guest.endpoint != nullptr && line_.status(guest.endpoint) == UCS_OK)
      line_.say(guest.endpoint, Word::Refused, round_, text);
  }
  for (ucp_ep_h stranger : strangers_) line_.say(stranger, Word::Refused, round_, text);
  throw Error(reason);
}

template <typename IsHere>
void ListenerHub::wait_for_all(const char* what, IsHere is_here) {
  const host::SteadyClock clock;
  const Time deadline = clock.now() + timeout_;
  std::string missing;
  do {
    line_.progress();
    missing.clear();
    for (std::size_t rank = 1; rank < guests_.size(); ++rank) {
      const Guest& guest = guests_[rank];
      if (guest.endpoint != nullptr && line_.status(guest.endpoint) != UCS_OK)
        refuse("rank " + std::to_string(rank) + " has gone");
      if (!is_here(guest)) missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
    }
    if (missing.empty()) return;
  } while (clock.now() < deadline);
  const double seconds = std::chrono::duration<double>(timeout_).count();
  refuse("at " + line_.address() + ", rank(s) " + missing + " " + what + " within " +
         std::to_string(seconds).substr(0, std::to_string(seconds).find('.') + 2) + " s");
}

std::vector<std::vector<std::byte>> ListenerHub::all_gather(std::span<const std::byte> own) {
  wait_for_all("did not come to the exchange", [](const Guest& guest) { return guest.bytes.has_value(); });
  std::vector<std::vector<std::byte>> all(guests_.size());
  all[0].assign(own.begin(), own.end());
  for (std::size_t rank = 1; rank < guests_.size(); ++rank)
    all[rank] = *std::exchange(guests_[rank].bytes, std::nullopt);
  process::ByteWriter writer;
  for (const auto& bytes : all) writer.put_all(std::span(bytes));
  const std::uint32_t round = round_++;
  for (std::size_t rank = 1; rank < guests_.size(); ++rank)
    line_.say(guests_[rank].endpoint, Word::All, round, writer.bytes());
  return all;
}

}  // namespace sluice::ucx
