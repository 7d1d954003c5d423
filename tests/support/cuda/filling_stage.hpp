#pragma once

#include <cuda_runtime_api.h>

#include <span>

#include "sluice/cuda/cuda_error.hpp"
#include "sluice/cuda/memory.hpp"
#include "sluice/cuda/stage.hpp"

namespace sluice::test {

/// A chunk whose passes fill what they write and compute nothing.
class FillingStage final : public cuda::Stage {
 public:
  [[nodiscard]] cuda::ChunkMemory memory() const override { return {kSavedBytes, 0}; }
  void forward(const cuda::TaskBuffers& buffers, cudaStream_t stream) override {
    fill(buffers.slot.saved, buffers.slot.saved_bytes, stream);
    for (const auto& tensors : buffers.slot.outputs)
      for (const cuda::SlotTensor& tensor : tensors) fill(tensor.data, tensor.capacity, stream);
  }
  void backward(const cuda::TaskBuffers& buffers, bool /*whole*/, cudaStream_t stream) override {
    for (const auto& tensors : buffers.slot.input_grads)
      for (const cuda::SlotTensor& tensor : tensors) fill(tensor.data, tensor.capacity, stream);
  }
  void weight_grad(const cuda::TaskBuffers& buffers, cudaStream_t stream) override {
    fill(buffers.slot.saved, buffers.slot.saved_bytes, stream);
  }

 private:
  static constexpr std::size_t kSavedBytes = 256;

  static void fill(std::byte* memory, std::size_t bytes, cudaStream_t stream) {
    cuda::check(cudaMemsetAsync(memory, 0, bytes, stream), "filling a tensor");
  }
};

}  // namespace sluice::test
