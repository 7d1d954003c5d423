#pragma once

#include <cstdint>
#include <string>

namespace sluice::gpt {

/// A listening TCP socket for a store to take over. The store could make its own, but reports a port in
/// use with pages of its call stack.
class StoreSocket {
 public:
  /// Listens on a free port of the loopback interface.
  /// @throws Error saying why it cannot
  static StoreSocket on_loopback();
  /// Listens on all interfaces.
  /// @throws Error saying why it cannot
  static StoreSocket on_port(std::uint16_t port);

  ~StoreSocket();
  StoreSocket(StoreSocket&& other) noexcept;
  StoreSocket& operator=(StoreSocket&&) = delete;
  StoreSocket(const StoreSocket&) = delete;
  StoreSocket& operator=(const StoreSocket&) = delete;

  [[nodiscard]] std::uint16_t port() const;
  /// Gives the descriptor away.
  [[nodiscard]] int release() noexcept;

 private:
  explicit StoreSocket(int family);
  void listen_at(const void* address, std::uint32_t size);

  int descriptor_;
};

/// Whether somebody accepts connections there now.
/// @throws Error if the host is unknown
[[nodiscard]] bool accepts_connections(const std::string& host, std::uint16_t port);

}  // namespace sluice::gpt
