#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sluice/transport.hpp"

namespace sluice::microbench {

/// Sends so many messages along edge 0, from as many slots as there are.
/// @throws Error if they are not taken
void send_stream(Transport& transport, std::uint32_t messages, std::uint32_t slots);

/// Takes them into as many slots.
/// @return when each arrived, in ns
/// @throws Error if they do not come
[[nodiscard]] std::vector<std::int64_t> receive_stream(Transport& transport, std::uint32_t messages,
                                                       std::uint32_t slots);

/// @param arrivals of messages of `bytes`, at least two
/// @return GB/s (1e9) of several stretches of them
[[nodiscard]] std::vector<double> bandwidths(const std::vector<std::int64_t>& arrivals, std::size_t bytes);

}  // namespace sluice::microbench
