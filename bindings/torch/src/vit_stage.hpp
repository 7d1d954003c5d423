#pragma once

#include <vector>

#include "chunk_stage.hpp"
#include "sluice/torch/shapes_data.hpp"
#include "sluice/torch/vit_chunk.hpp"

namespace sluice::gpt {

/// One chunk of a GPT that describes images, as user code of a pipeline.
///
/// The shape of its messages depends on the size of a microbatch's images, which the chunk knows from
/// the data, so it checks its input itself.
class VitStage final : public ChunkStage {
 public:
  /// @param config of a model with an encoder
  /// @param progress of the rank that owns the stage; must outlive it
  /// @param microbatches of one iteration, by which losses are averaged
  /// @param tensor the ranks that share the chunk's blocks
  VitStage(const GptConfig& config, const VitLayers& layers, Microbatch microbatches,
           const Progress& progress, TensorParallel tensor = {});

  [[nodiscard]] std::vector<ModelParameter*> parameters() override { return chunk_.parameters(); }

  [[nodiscard]] Batch batch(const host::TaskContext& context) const override;
  [[nodiscard]] std::vector<at::Tensor> leaves(const Batch& batch, const at::Tensor& input) const override;
  [[nodiscard]] at::Tensor run(const std::vector<at::Tensor>& leaves, const Batch& batch,
                               const Dropout& dropout, WeightJobs& jobs) const override;
  void defer_embeddings(const Batch& batch, const std::vector<at::Tensor>& leaf_grads,
                        WeightJobs& jobs) const override;

 private:
  ShapesData data_;
  VitChunk chunk_;
};

}  // namespace sluice::gpt
