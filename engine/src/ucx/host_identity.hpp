#pragma once

#include <cstdint>
#include <string>

namespace sluice::ucx {

/// Tells the hosts of a job apart, and the network namespaces of one host: between those, memory cannot be
/// relied on to be shared.
struct HostIdentity {
  std::string boot;
  std::uint64_t network = 0;

  friend bool operator==(const HostIdentity&, const HostIdentity&) = default;
};

/// @throws Error if the system does not say
[[nodiscard]] HostIdentity this_host();

}  // namespace sluice::ucx
