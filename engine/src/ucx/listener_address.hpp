#pragma once

#include <sys/socket.h>
#include <ucs/sys/sock.h>

#include <vector>

#include "sluice/process/process_place.hpp"
#include "ucp_handles.hpp"

namespace sluice::ucx {

struct SocketAddress {
  sockaddr_storage address{};
  socklen_t length = 0;

  [[nodiscard]] ucs_sock_addr_t view() const noexcept {
    return {reinterpret_cast<const sockaddr*>(&address), length};
  }
};

/// Where rank 0 may be reached, the likeliest first.
/// @throws ConfigError naming MASTER_ADDR if the host is not known
[[nodiscard]] std::vector<SocketAddress> addresses_of(const process::ProcessPlace& place);

/// Where rank 0 listens: its own name may stand for an address that others cannot reach.
[[nodiscard]] SocketAddress any_address(const process::ProcessPlace& place);

}  // namespace sluice::ucx
