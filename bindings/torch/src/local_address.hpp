#pragma once

#include <string>

namespace sluice::gpt {

/// The numeric address at which this machine is reached from `host`: that of the interface by which it
/// reaches `host`. A machine's own name, which gloo would go by, may resolve to the loopback interface
/// or to another network. Nothing is sent.
/// @throws Error naming the host if it is unknown or there is no way to it
[[nodiscard]] std::string local_address_towards(const std::string& host);

}  // namespace sluice::gpt
