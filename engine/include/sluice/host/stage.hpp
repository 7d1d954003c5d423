#pragma once

#include <cstdint>
#include <span>

#include "sluice/executor.hpp"
#include "sluice/host/payload.hpp"

namespace sluice::host {

/// What a stage's code is told about the task it runs.
struct TaskContext {
  std::uint32_t rank = 0;
  std::uint64_t iteration = 0;
  Microbatch microbatch = 0;
  Slot slot = kNoSlot;
  bool forward_only = false;
};

/// User code of one chunk. Called from the rank's executor worker only, one call at a time.
///
/// State kept between the passes of a microbatch belongs to its slot: `context.slot` is unique
/// among the chunk's microbatches in flight and is below the number of slots given to `prepare`.
/// An exception leaves the run with a TaskError that names the rank, the task and its text.
class Stage {
 public:
  virtual ~Stage() = default;

  /// Called once on the worker thread before the first task.
  virtual void prepare(std::uint32_t slots) { (void)slots; }

  /// @param inputs one payload for each edge into the chunk, in edge order; may be moved from
  /// @param outputs one payload for each edge out of the chunk, to be filled
  virtual void forward(const TaskContext& context, std::span<Payload> inputs, std::span<Payload> outputs) = 0;

  /// Computes the gradients of the inputs; with `whole`, also accumulates the weight gradients.
  /// @param output_grads one payload for each edge out of the chunk; may be moved from
  /// @param input_grads one payload for each edge into the chunk, to be filled with tensors of the
  ///        input's shapes, or with absent ones (see `is_absent`)
  virtual void backward(const TaskContext& context, bool whole, std::span<Payload> output_grads,
                        std::span<Payload> input_grads) = 0;

  /// Accumulates the weight gradients that `backward` with `whole == false` left.
  virtual void weight_grad(const TaskContext& context) = 0;

  /// The shape an activation of the out-edge at `position` must have; a rank of 0 with dtype_bits 0
  /// (the default) accepts any. A gradient must have its activation's shape.
  [[nodiscard]] virtual TensorShape output_shape(std::size_t position) const {
    (void)position;
    return {};
  }
};

}  // namespace sluice::host
