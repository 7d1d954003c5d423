#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gpu/subjects.hpp"

namespace sluice::microbench {

/// Messages whose bandwidth is measured.
struct Payload {
  std::string name;
  std::size_t bytes = 0;
  std::uint32_t messages = 0;
};

/// From 64 KiB to 256 MiB; quickly, the smallest only.
[[nodiscard]] std::vector<Payload> payloads(const Effort& effort, std::uint32_t most_messages);

/// GB/s (1e9) of cudaMemcpyAsync between device memory of this process.
/// @throws CudaError
[[nodiscard]] double plain_copy_bandwidth(const Payload& payload);

}  // namespace sluice::microbench
