#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sluice/clock.hpp"
#include "sluice/host/stage.hpp"
#include "sluice/iteration.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/torch/gpt_config.hpp"
#include "sluice/torch/parameter_digest.hpp"
#include "sluice/torch/process_groups.hpp"
#include "sluice/torch/step_exchange.hpp"
#include "sluice/torch/text_data.hpp"

namespace sluice::gpt {

/// What one rank owns of a GPT in training: its chunks, their gradient accumulators and its AdamW.
///
/// The parameters after any number of steps are the same bit for bit however the model is cut and in
/// whatever order tasks run, as long as weight gradients are accumulated in microbatch order.
/// `begin_iteration` and `end_iteration` enclose the tasks of an iteration; neither may overlap with
/// a task of this rank. Computes with one thread.
///
/// A rank that is a process may share its layers with the other members of its tensor-parallel group, which
/// run the same tasks in the same order, and each microbatch belongs to one of several replicas of the
/// model: replica d runs microbatches d*M to d*M + M-1 of a step. Both change the order in which numbers
/// are added, so parameters equal those of one rank up to rounding, and are the same bit for bit on all
/// members and replicas and in every run.
class TrainingRank {
 public:
  /// @param text shared by all ranks; unused by a model with an encoder, which draws its own images
  /// @param exchange shared by all ranks
  /// @param pipeline a chain of chunks, of which this rank owns those on stage `rank`
  /// @throws ConfigError naming the field if the settings are bad, or `stages` if there are more
  ///         chunks than layers, or `edges` if the pipeline is not a chain
  TrainingRank(const GptConfig& config, std::shared_ptr<const TextData> text,
               std::shared_ptr<StepExchange> exchange, const Pipeline& pipeline, StageId rank);

  /// A rank that is a process; its groups say where it stands.
  /// @param pipeline as above, with the microbatches of one replica
  /// @throws ConfigError as above; naming `stages` if the grid has another number of them, `tp` if the model
  ///         cannot be divided over the group's members, or `dp` if there are too many microbatches
  TrainingRank(const GptConfig& config, std::shared_ptr<const TextData> text, const Pipeline& pipeline,
               std::shared_ptr<ProcessGroups> groups);
  ~TrainingRank();
  TrainingRank(TrainingRank&&) noexcept;
  TrainingRank& operator=(TrainingRank&&) noexcept;

  /// User code of a chunk of this rank; lives as long as the rank.
  /// @throws Error if another rank owns the chunk
  [[nodiscard]] host::Stage& stage(Chunk chunk);

  /// Zeroes the gradients in place, for a training iteration. An evaluation (forward-only) leaves
  /// parameters, optimizer, data order and random state as they are.
  void begin_iteration(const Iteration& iteration);

  /// Finishes a training iteration together with the other ranks: waits until the gradients are added up over
  /// the replicas, adds tied gradients, clips by the global norm and steps AdamW. After an evaluation ranks
  /// exchange at most the losses of the replicas.
  /// @throws Aborted, StallError from the exchange; Error if the gradient norm is not finite
  void end_iteration();

  /// Whether this rank owns the last chunk, and so knows the losses.
  [[nodiscard]] bool has_loss() const;
  /// Mean loss of the last ended iteration over the microbatches of all replicas: training loss or held-out
  /// loss.
  /// @throws Error if another rank owns the last chunk
  [[nodiscard]] double loss() const;
  /// Global norm of the gradients of the last training iteration before clipping; 0 without clipping.
  [[nodiscard]] double gradient_norm() const;
  /// Training iterations ended.
  [[nodiscard]] std::uint64_t steps() const;

  /// Bytes of this rank's parameters.
  [[nodiscard]] std::uint64_t parameter_bytes() const;
  /// Bytes of this rank's gradient accumulators: one a parameter, whatever the number of microbatches.
  [[nodiscard]] std::uint64_t gradient_bytes() const;
  /// Microbatches, over all chunks of the rank, of which activations are kept now.
  [[nodiscard]] std::size_t saved_microbatches() const;
  /// Time this rank has spent adding gradients up over the replicas, waiting for the others included; it runs
  /// beside the tasks. 0 with one replica.
  [[nodiscard]] Duration reduction_time() const;
  /// Time `end_iteration` has waited for it.
  [[nodiscard]] Duration exposed_reduction_time() const;

  /// Digests of this rank's parameters, for `parameters_sha256`. Those of divided parameters are of the
  /// whole, for which all members of a tensor-parallel group make this call together.
  [[nodiscard]] std::vector<ParameterDigest> parameter_digests() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::gpt
