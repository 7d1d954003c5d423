#include "sluice/nccl/window_block.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "sluice/cuda/cuda_error.hpp"
#include "sluice/error.hpp"
#include "sluice/nccl/communicator.hpp"

namespace sluice::nccl {
namespace {

std::size_t largest(std::uint64_t own, const cuda::AllGather& all_gather) {
  std::uint64_t most = own;
  const auto all = all_gather(std::as_bytes(std::span(&own, 1)));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    std::uint64_t asked = 0;
    if (all[rank].size() != sizeof asked)
      throw Error(fmt::format("rank {} has no NCCL transport, or another version of it", rank));
    std::memcpy(&asked, all[rank].data(), sizeof asked);
    most = std::max(most, asked);
  }
  return most;
}

cuda::DeviceMemory allocate(std::size_t bytes, const char* what) {
  try {
    return WindowMemory(bytes, what).take();
  } catch (const NcclError& error) {
    std::size_t free = 0;
    std::size_t total = 0;
    cuda::check(cudaMemGetInfo(&free, &total), "asking for the free memory");
    // NCCL does not tell it from other failures of CUDA.
    if (free < bytes) throw cuda::CudaError(cudaErrorMemoryAllocation, error.what());
    throw;
  }
}

}  // namespace

cuda::MemorySource window_block(cuda::AllGather all_gather) {
  return [all_gather = std::move(all_gather)](std::size_t bytes, const char* what) {
    return allocate(largest(bytes, all_gather), what);
  };
}

}  // namespace sluice::nccl
