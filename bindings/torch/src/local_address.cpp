#include "local_address.hpp"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "sluice/error.hpp"

namespace sluice::gpt {
namespace {

constexpr const char* kAnyService = "9";  // connecting a datagram socket picks the interface only

/// Empty if there is no way to it.
std::string address_towards(const addrinfo& target) {
  const int descriptor = ::socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return {};
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  auto* address = reinterpret_cast<sockaddr*>(&own);
  char text[NI_MAXHOST] = "";
  const bool found = ::connect(descriptor, target.ai_addr, target.ai_addrlen) == 0 &&
                     ::getsockname(descriptor, address, &size) == 0 &&
                     ::getnameinfo(address, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) == 0;
  ::close(descriptor);
  return found ? text : "";
}

}  // namespace

std::string local_address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), kAnyService, &hints, &found); error != 0) {
    throw Error("host " + host + " is unknown: " + ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> targets(found, &::freeaddrinfo);
  for (const addrinfo* target = found; target != nullptr; target = target->ai_next) {
    if (std::string address = address_towards(*target); !address.empty()) return address;
  }
  throw Error("there is no way to host " + host);
}

}  // namespace sluice::gpt
