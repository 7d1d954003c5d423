#include "sluice/ucx/listener_bootstrap.hpp"

#include <utility>

#include "listener_guest.hpp"
#include "listener_hub.hpp"
#include "sluice/error.hpp"

namespace sluice::ucx {

ListenerBootstrap::ListenerBootstrap(process::ProcessPlace place, Duration timeout)
    : place_(std::move(place)) {
  if (place_.ranks == 0) throw ConfigError("WORLD_SIZE", "there is at least one rank");
  if (place_.rank >= place_.ranks) {
    throw ConfigError("RANK", std::to_string(place_.rank) + " does not exist among " +
                                  std::to_string(place_.ranks) + " ranks");
  }
  if (place_.port == 0) throw ConfigError("MASTER_PORT", "0 is no port to meet at");
  if (place_.rank == 0) {
    hub_ = std::make_unique<ListenerHub>(place_, timeout);
  } else {
    guest_ = std::make_unique<ListenerGuest>(place_, timeout);
  }
}

ListenerBootstrap::~ListenerBootstrap() = default;

std::vector<std::vector<std::byte>> ListenerBootstrap::all_gather(std::span<const std::byte> own) {
  return hub_ != nullptr ? hub_->all_gather(own) : guest_->all_gather(own);
}

}  // namespace sluice::ucx
