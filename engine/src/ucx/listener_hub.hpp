#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "listener_line.hpp"

namespace sluice::ucx {

/// Rank 0 of a ListenerBootstrap.
class ListenerHub {
 public:
  /// Waits for all ranks.
  ListenerHub(const process::ProcessPlace& place, Duration timeout);
  ~ListenerHub();
  ListenerHub(const ListenerHub&) = delete;
  ListenerHub& operator=(const ListenerHub&) = delete;

  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> own);

 private:
  struct Guest {
    ucp_ep_h endpoint = nullptr;
    std::optional<std::vector<std::byte>> bytes;
  };

  void listen();
  static void asked(ucp_conn_request_h request, void* self);
  void heard(Said said, ucp_ep_h from);
  void join(const Said& said, ucp_ep_h from);
  [[noreturn]] void refuse(const std::string& reason);
  /// @param is_here of one rank
  template <typename IsHere>
  void wait_for_all(const char* what, IsHere is_here);

  Duration timeout_;
  ListenerLine line_;
  ucp_listener_h listener_ = nullptr;
  /// By rank; the first one stays empty.
  std::vector<Guest> guests_;
  /// Processes that came and are not welcome.
  std::vector<ucp_ep_h> strangers_;
  std::uint32_t round_ = 0;
};

}  // namespace sluice::ucx
