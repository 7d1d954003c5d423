#pragma once

#include <ATen/core/Tensor.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/cuda/slot_memory.hpp"
#include "sluice/cuda/stage.hpp"

namespace sluice::capture {

/// A trained tensor on the device.
struct TrainedTensor {
  std::string name;
  at::Tensor value;
  /// Where the weight gradients of the microbatches are added up: allocated once, at an address that graphs
  /// are captured with, so it is zeroed in place and never replaced.
  at::Tensor grad;
};

/// A chunk whose work is LibTorch's.
///
/// What its forward saves for its other passes is memory of torch's, for each slot in a pool of its own: the
/// autograd graph of a captured forward is kept with its slot, and the captured backward runs it. One
/// GraphCache at a time can hold its captures.
class TorchStage : public cuda::Stage {
 public:
  [[nodiscard]] bool saves_outside_slot() const final { return true; }

  /// For the optimizer, whose step belongs to no task. In the order of the module.
  [[nodiscard]] virtual std::vector<TrainedTensor> trained() const = 0;
  /// Enqueues zeros into all gradients.
  virtual void zero_gradients(cudaStream_t stream) = 0;

  /// Of a chunk that ends in a loss: that of the slot's last forward. Waits for the stream.
  /// @throws Error if there is no loss
  [[nodiscard]] virtual double loss(const cuda::SlotBuffers& slot, cudaStream_t stream) const = 0;
  /// That torch holds for the captures of all slots.
  [[nodiscard]] virtual std::uint64_t pool_bytes() const = 0;
};

}  // namespace sluice::capture
