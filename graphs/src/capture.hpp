#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "sluice/cuda/handles.hpp"

namespace sluice::graphs {

/// Records what `work` puts on the stream, without running it. Other threads are not disturbed. On an error
/// the capture has ended and the thread's last error is cleared.
/// @throws CudaError, and what `work` throws
[[nodiscard]] cuda::Graph capture(cudaStream_t stream, const std::function<void()>& work);

}  // namespace sluice::graphs
