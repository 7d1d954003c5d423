#include "socket.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>
#include <thread>

#include "sluice/error.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::process {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kBetweenTries{50};
/// The port was open before anybody was told of it: refused for so long, its owner is gone.
constexpr milliseconds kRefused{2000};

struct FreeAddresses {
  void operator()(addrinfo* list) const noexcept { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

/// Null with the reason in `why` if the name means nothing.
Addresses resolve(const std::string& host, std::uint16_t port, std::string& why) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &list);
  if (code != 0) why = gai_strerror(code);
  return Addresses(code == 0 ? list : nullptr);
}

Descriptor open_socket(int family) {
  return Descriptor(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

void set_option(const Descriptor& socket, int level, int option, int value) {
  if (setsockopt(socket.get(), level, option, &value, sizeof value) != 0)
    throw Error("a socket option is refused: " + describe(errno));
}

std::uint16_t port_of(const Descriptor& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    throw Error("a socket has no address: " + describe(errno));
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

bool listens(const Descriptor& socket, const sockaddr* address, socklen_t length, int backlog) {
  return bind(socket.get(), address, length) == 0 && listen(socket.get(), backlog) == 0;
}

/// On all interfaces of IPv4.
bool listens_everywhere(const Descriptor& socket, std::uint16_t port, int backlog) {
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_ANY);
  any.sin_port = htons(port);
  return socket.open() && listens(socket, reinterpret_cast<const sockaddr*>(&any), sizeof any, backlog);
}

Descriptor listen_everywhere(int backlog) {
  Descriptor both = open_socket(AF_INET6);
  if (both.open()) {
    set_option(both, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_addr = in6addr_any;
    if (listens(both, reinterpret_cast<const sockaddr*>(&any), sizeof any, backlog)) return both;
  }
  Descriptor only = open_socket(AF_INET);
  if (listens_everywhere(only, 0, backlog)) return only;
  throw Error("no port to listen on: " + describe(errno));
}

Descriptor listen_on_loopback(const std::string& host, int backlog) {
  std::string why = "it has no address";
  const Addresses addresses = resolve(host, 0, why);
  for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
    Descriptor socket = open_socket(each->ai_family);
    if (socket.open() && listens(socket, each->ai_addr, each->ai_addrlen, backlog)) return socket;
    why = describe(errno);
  }
  throw Error(fmt::format("no port to listen on at {}: {}", host, why));
}

/// The machine's own name may mean the loopback here and something else elsewhere, so only what means it
/// everywhere counts.
bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

/// 0 if connected, otherwise the error number.
int try_connect(const Descriptor& socket, const addrinfo& address, Time deadline) {
  if (connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  while (true) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - host::SteadyClock().now());
    if (left <= milliseconds{0}) return ETIMEDOUT;
    pollfd event{socket.get(), POLLOUT, 0};
    if (poll(&event, 1, static_cast<int>(std::min(left, milliseconds{1000}).count())) > 0) break;
  }
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

}  // namespace

void Descriptor::reset(int number) noexcept {
  if (number_ >= 0) close(number_);
  number_ = number;
}

std::string describe(int error) { return std::generic_category().message(error); }

Listener listen_for(const std::string& host, int backlog) {
  Listener listener;
  listener.socket = is_loopback(host) ? listen_on_loopback(host, backlog) : listen_everywhere(backlog);
  listener.port = port_of(listener.socket);
  return listener;
}

bool may_listen_on(std::uint16_t port) { return listens_everywhere(open_socket(AF_INET), port, 1); }

Descriptor accept_from(const Descriptor& listener) {
  return Descriptor(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

Descriptor connect_to(const std::string& host, std::uint16_t port, Duration timeout) {
  const host::SteadyClock clock;
  const Time started = clock.now();
  const Time deadline = started + timeout;
  std::string why;
  bool refused = true;
  do {
    const Addresses addresses = resolve(host, port, why);
    refused = addresses != nullptr;
    for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
      Descriptor socket = open_socket(each->ai_family);
      const int error = socket.open() ? try_connect(socket, *each, deadline) : errno;
      if (error == 0) return socket;
      why = describe(error);
      refused &= error == ECONNREFUSED;
    }
    std::this_thread::sleep_for(kBetweenTries);
  } while (clock.now() < (refused ? std::min(deadline, started + kRefused) : deadline));
  throw Error(fmt::format("{} port {} cannot be reached: {}", host, port, why));
}

void prepare(const Descriptor& socket, Duration give_up) {
  const auto limit = std::chrono::ceil<std::chrono::seconds>(give_up);
  const int seconds = static_cast<int>(std::clamp<std::int64_t>(limit.count(), 10, 3600));
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, std::max(seconds / 2, 1));
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, std::max(seconds / 6, 1));
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, seconds * 1000);
}

}  // namespace sluice::process
