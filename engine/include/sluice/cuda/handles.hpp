#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <type_traits>

namespace sluice::cuda {

template <typename Handle, cudaError_t (*destroy)(Handle)>
struct HandleDeleter {
  /// Errors of earlier work show up here too; who cares for them synchronises before.
  void operator()(Handle handle) const noexcept { static_cast<void>(destroy(handle)); }
};

template <typename Handle, cudaError_t (*destroy)(Handle)>
using UniqueHandle = std::unique_ptr<std::remove_pointer_t<Handle>, HandleDeleter<Handle, destroy>>;

using Stream = UniqueHandle<cudaStream_t, cudaStreamDestroy>;
using Event = UniqueHandle<cudaEvent_t, cudaEventDestroy>;
using Graph = UniqueHandle<cudaGraph_t, cudaGraphDestroy>;
using GraphExec = UniqueHandle<cudaGraphExec_t, cudaGraphExecDestroy>;

/// Which of the device's queues go first where several have work.
enum class Priority { Lowest, Highest };

/// A stream that does not wait for the legacy default stream.
/// @throws CudaError
[[nodiscard]] Stream make_stream(Priority priority = Priority::Lowest);

/// An event without times.
/// @throws CudaError
[[nodiscard]] Event make_event();

}  // namespace sluice::cuda
