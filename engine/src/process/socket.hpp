#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "sluice/clock.hpp"

namespace sluice::process {

/// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) noexcept : number_(number) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) reset(std::exchange(other.number_, -1));
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int get() const noexcept { return number_; }
  [[nodiscard]] bool open() const noexcept { return number_ >= 0; }
  void reset(int number = -1) noexcept;

 private:
  int number_ = -1;
};

/// A TCP socket that waits for connections, and its port.
struct Listener {
  Descriptor socket;
  std::uint16_t port = 0;
};

/// Listens on a port of the system's choice: of all interfaces, or of the loopback alone if `host` is a
/// name or address of it.
/// @throws Error
[[nodiscard]] Listener listen_for(const std::string& host, int backlog);

/// Whether nobody listens on the port, on any interface.
[[nodiscard]] bool may_listen_on(std::uint16_t port);

/// The next connection that waits, not blocking; closed if there is none.
[[nodiscard]] Descriptor accept_from(const Descriptor& listener);

/// Connects, trying again until it works or time is up; the socket does not block.
/// @throws Error with the last reason
[[nodiscard]] Descriptor connect_to(const std::string& host, std::uint16_t port, Duration timeout);

/// Sends at once, and lets the system give up on a peer whose host is gone for so long.
/// @throws Error
void prepare(const Descriptor& socket, Duration give_up);

/// What the system says of an error number.
[[nodiscard]] std::string describe(int error);

}  // namespace sluice::process
