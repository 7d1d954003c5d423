#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "listener_line.hpp"

namespace sluice::ucx {

/// Any other rank of a ListenerBootstrap.
class ListenerGuest {
 public:
  /// Joins and waits for the welcome.
  ListenerGuest(const process::ProcessPlace& place, Duration timeout);

  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> own);

 private:
  void join();
  void heard(Said said);
  [[nodiscard]] bool answered(Time deadline);

  Duration timeout_;
  ListenerLine line_;
  ucp_ep_h hub_ = nullptr;
  std::optional<Said> answer_;
  std::uint32_t round_ = 0;
};

}  // namespace sluice::ucx
