#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "sluice/cuda/slot_memory.hpp"
#include "sluice/host/stage.hpp"

namespace sluice::cuda {

/// What a chunk's code works on.
struct TaskBuffers {
  SlotBuffers& slot;
  std::byte* temporary = nullptr;
  std::size_t temporary_bytes = 0;
};

/// Device memory and what its elements are.
struct DeviceSpan {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::uint8_t dtype_code = 0;  ///< DLDataTypeCode
  std::uint8_t dtype_bits = 8;
};

/// What can be done for a task.
enum class Replay {
  Held,     ///< a graph that is held can be launched
  Again,    ///< it cannot, but a new capture can
  ByCalls,  ///< neither
};

/// User code of one chunk on a device. Each call enqueues its work on `stream` (or on streams forked from it
/// and joined again) and returns; it does not wait for the device, allocate, or read what the device
/// computes.
///
/// What a call enqueues may depend on the buffers' addresses and shapes only: it is captured once for each
/// (chunk, pass, slot) and replayed for other microbatches. What does depend on the microbatch is written by
/// `prepare_task`, which is called before every launch, captured or not.
class Stage {
 public:
  virtual ~Stage() = default;

  /// Bytes the chunk needs besides the tensors at its edges.
  [[nodiscard]] virtual ChunkMemory memory() const = 0;

  /// Memory outside the slot that the chunk's tasks change, such as its weight gradients: put back after the
  /// runs that warm a capture up and verify it. Valid, and the same, as long as the stage lives.
  [[nodiscard]] virtual std::span<const DeviceSpan> state() const { return {}; }

  /// What a captured forward leaves for its other passes is memory of that capture, not of the slot.
  [[nodiscard]] virtual bool saves_outside_slot() const { return false; }
  /// Whether a graph of the pass that was captured earlier works with what the slot's other passes left now.
  /// Asked after `prepare_task`.
  [[nodiscard]] virtual Replay replay(Pass /*pass*/, bool /*whole*/, const TaskBuffers& /*buffers*/) const {
    return Replay::Held;
  }

  /// Before a task's work goes on the stream: for small words that the work reads, such as the microbatch's
  /// data or its random state. Not captured.
  virtual void prepare_task(const host::TaskContext& /*context*/, Pass /*pass*/,
                            const TaskBuffers& /*buffers*/, cudaStream_t /*stream*/) {}

  virtual void forward(const TaskBuffers& buffers, cudaStream_t stream) = 0;
  /// Computes the gradients of the inputs; with `whole`, also accumulates the weight gradients.
  virtual void backward(const TaskBuffers& buffers, bool whole, cudaStream_t stream) = 0;
  /// Accumulates the weight gradients that `backward` with `whole == false` left.
  virtual void weight_grad(const TaskBuffers& buffers, cudaStream_t stream) = 0;
};

}  // namespace sluice::cuda
