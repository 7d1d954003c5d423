#include "listener_address.hpp"

#include <netdb.h>
#include <netinet/in.h>

#include <cstring>
#include <memory>
#include <string>

#include "sluice/error.hpp"

namespace sluice::ucx {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* addresses) const noexcept { freeaddrinfo(addresses); }
};

}  // namespace

std::vector<SocketAddress> addresses_of(const process::ProcessPlace& place) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(place.host.c_str(), std::to_string(place.port).c_str(), &hints, &found);
  if (error != 0) throw ConfigError("MASTER_ADDR", place.host + ": " + gai_strerror(error));
  const std::unique_ptr<addrinfo, FreeAddresses> owned(found);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    SocketAddress& address = addresses.emplace_back();
    std::memcpy(&address.address, each->ai_addr, each->ai_addrlen);
    address.length = each->ai_addrlen;
  }
  return addresses;
}

SocketAddress any_address(const process::ProcessPlace& place) {
  SocketAddress address = addresses_of(place).front();
  if (address.address.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&address.address)->sin6_addr = in6addr_any;
  } else {
    reinterpret_cast<sockaddr_in*>(&address.address)->sin_addr.s_addr = htonl(INADDR_ANY);
  }
  return address;
}

}  // namespace sluice::ucx
