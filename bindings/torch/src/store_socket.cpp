#include "store_socket.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "sluice/error.hpp"

namespace sluice::gpt {
namespace {

constexpr int kBacklog = 4096;

[[noreturn]] void refuse() { throw Error(errno == EADDRINUSE ? "the port is in use" : std::strerror(errno)); }

bool has_ipv6() {
  const int descriptor = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return false;
  ::close(descriptor);
  return true;
}

bool connects(const addrinfo& target) {
  const int descriptor = ::socket(target.ai_family, target.ai_socktype | SOCK_CLOEXEC, target.ai_protocol);
  if (descriptor < 0) return false;
  const bool connected = ::connect(descriptor, target.ai_addr, target.ai_addrlen) == 0;
  ::close(descriptor);
  return connected;
}

}  // namespace

StoreSocket::StoreSocket(int family) : descriptor_(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (descriptor_ < 0) refuse();
}

StoreSocket::~StoreSocket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

StoreSocket::StoreSocket(StoreSocket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

int StoreSocket::release() noexcept { return std::exchange(descriptor_, -1); }

void StoreSocket::listen_at(const void* address, std::uint32_t size) {
  // A restarted run takes over the port of the one before, whose connections may still be closing.
  const int on = 1;
  (void)::setsockopt(descriptor_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (::bind(descriptor_, static_cast<const sockaddr*>(address), size) != 0) refuse();
  if (::listen(descriptor_, kBacklog) != 0) refuse();
}

StoreSocket StoreSocket::on_loopback() {
  StoreSocket socket(AF_INET);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socket.listen_at(&address, sizeof(address));
  return socket;
}

StoreSocket StoreSocket::on_port(std::uint16_t port) {
  if (!has_ipv6()) {
    StoreSocket socket(AF_INET);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    socket.listen_at(&address, sizeof(address));
    return socket;
  }
  StoreSocket socket(AF_INET6);
  const int off = 0;  // the older addresses too
  (void)::setsockopt(socket.descriptor_, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  socket.listen_at(&address, sizeof(address));
  return socket;
}

std::uint16_t StoreSocket::port() const {
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  if (::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &size) != 0) refuse();
  return ntohs(address.sin_port);
}

bool accepts_connections(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
      error != 0) {
    throw Error("host " + host + " is unknown: " + ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> targets(found, &::freeaddrinfo);
  for (const addrinfo* target = found; target != nullptr; target = target->ai_next) {
    if (connects(*target)) return true;
  }
  return false;
}

}  // namespace sluice::gpt
