#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/first_common.hpp"

namespace sluice::nccl {

/// Finds the first task of each window on the device.
/// @param bytes,answer as the device sees them; `answer` is written last, its attempt after all else
/// @throws CudaError
void enqueue_first_common(const std::uint8_t* bytes, const kernels::Windows& windows, std::uint64_t attempt,
                          kernels::Answer* answer, cudaStream_t stream);

}  // namespace sluice::nccl
