#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sluice/host/stage.hpp"
#include "sluice/iteration.hpp"
#include "sluice/torch/gpt_chunk.hpp"
#include "sluice/torch/gpt_config.hpp"
#include "sluice/torch/shapes_data.hpp"
#include "sluice/torch/text_data.hpp"

namespace sluice::gpt {

/// Where a rank is in its run; changes between iterations only, while no task runs.
struct Progress {
  Iteration iteration;
  /// Training steps finished.
  std::uint64_t step = 0;
  /// Replicas of the model, which share the microbatches of a step, and which of them this is.
  std::uint32_t replicas = 1;
  std::uint32_t replica = 0;
};

/// What a chunk reads of a microbatch's data; what it does not read is undefined.
struct Batch {
  at::Tensor patches;  ///< [rows, patches, VitConfig::kPatchValues]
  ImageGrid grid;
  at::Tensor tokens;   ///< [rows, context]
  at::Tensor targets;  ///< the same moved on by one
};

/// [rows, context] of integers that are not yet set.
[[nodiscard]] at::Tensor empty_tokens(const GptConfig& config);

/// The elements of a contiguous tensor of integers.
[[nodiscard]] std::span<std::int64_t> elements(const at::Tensor& tensor);

/// One chunk of a model as user code of a pipeline.
///
/// A microbatch's graph lives in its slot from forward to backward, what its weight gradients need
/// until they ran.
class ChunkStage : public host::Stage {
 public:
  /// @param is_first the chunk has no input but the data
  /// @param is_last the chunk computes the loss
  /// @param microbatches of one iteration and replica
  /// @param progress of the rank that owns the stage; must outlive it
  ChunkStage(const GptConfig& config, bool is_first, bool is_last, Microbatch microbatches,
             const Progress& progress);

  void prepare(std::uint32_t slots) final;
  void forward(const host::TaskContext& context, std::span<host::Payload> inputs,
               std::span<host::Payload> outputs) final;
  void backward(const host::TaskContext& context, bool whole, std::span<host::Payload> output_grads,
                std::span<host::Payload> input_grads) final;
  void weight_grad(const host::TaskContext& context) final;

  [[nodiscard]] virtual std::vector<ModelParameter*> parameters() = 0;
  [[nodiscard]] bool is_last() const noexcept { return is_last_; }
  /// Last chunk only: by microbatch.
  [[nodiscard]] std::span<const double> losses() const noexcept { return losses_; }
  /// A training iteration begins.
  void begin_training() noexcept { accumulated_ = 0; }
  /// Called on the executor's worker when the weight gradients of all microbatches of a training iteration
  /// are accumulated.
  void on_gradients_final(std::function<void()> hook) { gradients_final_ = std::move(hook); }
  /// Microbatches whose graph or weight-gradient jobs are kept.
  [[nodiscard]] std::size_t saved_microbatches() const;

  // What the passes are made of.

  /// The data that the chunk reads.
  [[nodiscard]] virtual Batch batch(const host::TaskContext& context) const = 0;
  /// What the chunk's graph starts from: its input, or what it embeds, and what else it embeds.
  /// @param input activations of the chunk before; undefined in the first
  [[nodiscard]] virtual std::vector<at::Tensor> leaves(const Batch& batch, const at::Tensor& input) const = 0;
  /// The activations for the next chunk or, in the last, the loss.
  [[nodiscard]] virtual at::Tensor run(const std::vector<at::Tensor>& leaves, const Batch& batch,
                                       const Dropout& dropout, WeightJobs& jobs) const = 0;
  /// Leaves the gradients of the chunk's embeddings to `jobs`.
  /// @param leaf_grads one for each leaf
  virtual void defer_embeddings(const Batch& batch, const std::vector<at::Tensor>& leaf_grads,
                                WeightJobs& jobs) const = 0;

 protected:
  [[nodiscard]] const GptConfig& config() const noexcept { return config_; }
  /// Names a microbatch of the current step.
  [[nodiscard]] BatchKey key(const host::TaskContext& context) const;

 private:
  struct Saved {
    Batch batch;
    std::vector<at::Tensor> leaves;
    at::Tensor output;
    WeightJobs jobs;
  };

  void check(const host::TaskContext& context) const;
  [[nodiscard]] Dropout dropout(const host::TaskContext& context) const;
  [[nodiscard]] Microbatch in_step(const host::TaskContext& context) const;
  [[nodiscard]] std::unique_ptr<Saved>& slot_of(const host::TaskContext& context);
  [[nodiscard]] Saved& saved(const host::TaskContext& context, const char* missing);

  GptConfig config_;
  bool is_first_;
  bool is_last_;
  Microbatch microbatches_;
  const Progress& progress_;
  std::function<void()> gradients_final_;
  Microbatch accumulated_ = 0;  ///< microbatches of the current iteration
  std::vector<std::unique_ptr<Saved>> slots_;
  std::vector<double> losses_;  ///< by microbatch
};

}  // namespace sluice::gpt
