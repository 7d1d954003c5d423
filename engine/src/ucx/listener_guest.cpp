#include "listener_guest.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "listener_address.hpp"
#include "sluice/error.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/process/bytes.hpp"

namespace sluice::ucx {
namespace {

constexpr auto kRetry = std::chrono::milliseconds(50);
/// Rank 0 gives up first, and says who is missing.
constexpr Duration kLonger = std::chrono::seconds(1);

}  // namespace

ListenerGuest::ListenerGuest(const process::ProcessPlace& place, Duration timeout)
    : timeout_(timeout), line_(place, [this](Said said, ucp_ep_h /*from*/) { heard(std::move(said)); }) {
  join();
}

/// Rank 0 may be started later, so a connection that is refused is tried again.
void ListenerGuest::join() {
  const QuietUcx quiet;
  const host::SteadyClock clock;
  const Time deadline = clock.now() + timeout_;
  const std::vector<SocketAddress> addresses = addresses_of(line_.place());
  ucs_status_t status = UCS_OK;
  for (std::size_t attempt = 0; clock.now() < deadline; ++attempt) {
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
    params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
    params.sockaddr = addresses[attempt % addresses.size()].view();
    hub_ = line_.connect(params, status);
    if (hub_ != nullptr) {
      line_.say(hub_, Word::Join, 0, {});
      if (answered(deadline + kLonger)) return;
      status = line_.status(hub_);
      line_.disconnect(hub_);
    }
    std::this_thread::sleep_for(kRetry);
  }
  throw Error("rank " + std::to_string(line_.place().rank) + ": rank 0 at " + line_.address() +
              " does not answer" + (status == UCS_OK ? "" : std::string(": ") + ucs_status_string(status)));
}

void ListenerGuest::heard(Said said) {
  if (said.word == Word::Refused) {
    throw Error(std::string(reinterpret_cast<const char*>(said.bytes.data()), said.bytes.size()));
  }
  answer_ = std::move(said);
}

/// False if the connection fails or nothing comes in time.
bool ListenerGuest::answered(Time deadline) {
  const host::SteadyClock clock;
  answer_.reset();
  while (!answer_ && clock.now() < deadline) {
    line_.progress();
    if (!answer_ && line_.status(hub_) != UCS_OK) return false;
  }
  return answer_.has_value();
}

std::vector<std::vector<std::byte>> ListenerGuest::all_gather(std::span<const std::byte> own) {
  line_.say(hub_, Word::Bytes, round_, own);
  const bool came = answered(host::SteadyClock().now() + timeout_ + kLonger);
  if (!came || answer_->word != Word::All || answer_->round != round_) {
    throw Error("rank " + std::to_string(line_.place().rank) + ": rank 0 at " + line_.address() +
                " has gone or does not answer");
  }
  ++round_;
  process::ByteReader reader(answer_->bytes);
  std::vector<std::vector<std::byte>> all;
  for (std::uint32_t rank = 0; rank < line_.place().ranks; ++rank) all.push_back(reader.get_all<std::byte>());
  return all;
}

}  // namespace sluice::ucx
