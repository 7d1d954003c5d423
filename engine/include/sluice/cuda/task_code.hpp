#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "sluice/cuda/completion_board.hpp"
#include "sluice/executor.hpp"

namespace sluice::cuda {

/// Puts the work of a task on a stream: by launching a captured graph, or call by call.
///
/// What it puts there begins with `CompletionBoard::enqueue_start` of the place and ends with `enqueue_end`,
/// or makes the same marks itself.
class TaskCode {
 public:
  virtual ~TaskCode() = default;

  /// Does not wait for the device.
  /// @param place of the launch on the board: the executor's `place_of(launch)`
  /// @throws CudaError
  virtual void enqueue(const Launch& launch, std::uint32_t place, const CompletionBoard& board,
                       cudaStream_t stream) = 0;
};

}  // namespace sluice::cuda
