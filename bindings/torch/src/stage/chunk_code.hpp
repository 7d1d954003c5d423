#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "sluice/host/stage.hpp"
#include "sluice/torch/cuda/torch_stage.hpp"
#include "sluice/transport.hpp"

namespace sluice::capture {

/// What a backward made and left.
struct Differentiated {
  /// One for each input; undefined for what has none.
  std::vector<at::Tensor> input_grads;
  /// Accumulates the weight gradients, each time it is called; empty if that is done.
  std::function<void()> weight_grad;
};

/// One forward, kept for the other passes of its microbatch, and for replays of them.
class ChunkRun {
 public:
  virtual ~ChunkRun() = default;

  /// The tensors of the output edges in order or, of a chunk that ends in a loss, the loss.
  [[nodiscard]] virtual const std::vector<at::Tensor>& results() const = 0;
  /// May be called any number of times.
  /// @param result_grads one for each result; of a loss, undefined
  [[nodiscard]] virtual Differentiated backward(const std::vector<at::Tensor>& result_grads, bool whole) = 0;
};

/// The data of a microbatch.
struct MicrobatchData {
  std::size_t bytes = 0;
  /// Which of several kinds of work the chunk does for it, where the shapes of its tensors do not say: what
  /// is captured for one kind is of no use for another.
  std::uint64_t variant = 0;
  /// Of a chunk without inputs, what its output edge carries, if that is not always the same.
  std::vector<TensorShape> outputs;
};

/// A chunk's code, on whatever device its tensors are.
class ChunkCode {
 public:
  virtual ~ChunkCode() = default;

  [[nodiscard]] virtual bool ends_in_loss() const = 0;
  /// Most bytes of a microbatch's own data, beside the inputs.
  [[nodiscard]] virtual std::size_t data_bytes() const { return 0; }
  /// Writes a microbatch's data.
  [[nodiscard]] virtual MicrobatchData fill(const host::TaskContext& /*context*/,
                                            std::span<std::byte> /*data*/) {
    return {};
  }

  /// @param inputs the slot's memory, which no autograd graph knows yet
  /// @param data the microbatch's, on the device
  [[nodiscard]] virtual std::shared_ptr<ChunkRun> forward(const std::vector<at::Tensor>& inputs,
                                                          std::byte* data, std::uint64_t variant) = 0;

  [[nodiscard]] virtual std::vector<TrainedTensor> trained() const = 0;
  /// What a forward changes beside.
  [[nodiscard]] virtual std::vector<at::Tensor> buffers() const { return {}; }
};

}  // namespace sluice::capture
