#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "sluice/host/stage.hpp"
#include "sluice/iteration.hpp"
#include "sluice/torch/gpt_chunk.hpp"
#include "sluice/torch/text_data.hpp"

namespace sluice::gpt {

/// Where a rank is in its run; changes between iterations only, while no task runs.
struct Progress {
  Iteration iteration;
  /// Training steps finished.
  std::uint64_t step = 0;
};

/// One chunk of the GPT as user code of a pipeline.
///
/// A microbatch's graph lives in its slot from forward to backward, what its weight gradients need
/// until they ran.
class GptStage final : public host::Stage {
 public:
  /// @param progress of the rank that owns the stage; must outlive it
  /// @param microbatches of one iteration, by which losses are averaged
  GptStage(const GptConfig& config, LayerRange layers, bool is_first, bool is_last, Microbatch microbatches,
           std::shared_ptr<const TextData> text, const Progress& progress);

  void prepare(std::uint32_t slots) override;
  void forward(const host::TaskContext& context, std::span<host::Payload> inputs,
               std::span<host::Payload> outputs) override;
  void backward(const host::TaskContext& context, bool whole, std::span<host::Payload> output_grads,
                std::span<host::Payload> input_grads) override;
  void weight_grad(const host::TaskContext& context) override;
  [[nodiscard]] TensorShape output_shape(std::size_t position) const override;

  [[nodiscard]] GptChunk& chunk() noexcept { return chunk_; }
  /// Last chunk only: mean over the microbatches, summed in their order.
  [[nodiscard]] double mean_loss() const;
  /// Microbatches whose graph or weight-gradient jobs are kept.
  [[nodiscard]] std::size_t saved_microbatches() const;

 private:
  struct Saved {
    at::Tensor tokens;  ///< first chunk only
    at::Tensor input;   ///< leaf whose gradient is the chunk's input gradient
    at::Tensor output;
    WeightJobs jobs;
  };
  struct Batch {
    at::Tensor inputs;   ///< tokens, [rows, context]
    at::Tensor targets;  ///< the same moved on by one
  };

  void check(const host::TaskContext& context) const;
  [[nodiscard]] Batch batch(const host::TaskContext& context) const;
  [[nodiscard]] Dropout dropout(const host::TaskContext& context) const;
  [[nodiscard]] std::unique_ptr<Saved>& slot_of(const host::TaskContext& context);
  [[nodiscard]] Saved& saved(const host::TaskContext& context, const char* missing);

  GptConfig config_;
  std::shared_ptr<const TextData> text_;
  const Progress& progress_;
  GptChunk chunk_;
  std::vector<std::unique_ptr<Saved>> slots_;
  std::vector<double> losses_;  ///< by microbatch
};

}  // namespace sluice::gpt
