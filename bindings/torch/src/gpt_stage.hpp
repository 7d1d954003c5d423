#pragma once

#include <memory>
#include <vector>

#include "chunk_stage.hpp"
#include "sluice/torch/gpt_chunk.hpp"
#include "sluice/torch/text_data.hpp"

namespace sluice::gpt {

/// One chunk of the GPT as user code of a pipeline.
class GptStage final : public ChunkStage {
 public:
  /// @param progress of the rank that owns the stage; must outlive it
  /// @param microbatches of one iteration, by which losses are averaged
  /// @param tensor the ranks that share the chunk's blocks
  GptStage(const GptConfig& config, LayerRange layers, bool is_first, bool is_last, Microbatch microbatches,
           std::shared_ptr<const TextData> text, const Progress& progress, TensorParallel tensor = {});

  [[nodiscard]] TensorShape output_shape(std::size_t position) const override;
  [[nodiscard]] std::vector<ModelParameter*> parameters() override;

  [[nodiscard]] Batch batch(const host::TaskContext& context) const override;
  [[nodiscard]] std::vector<at::Tensor> leaves(const Batch& batch, const at::Tensor& input) const override;
  [[nodiscard]] at::Tensor run(const std::vector<at::Tensor>& leaves, const Batch& batch,
                               const Dropout& dropout, WeightJobs& jobs) const override;
  void defer_embeddings(const Batch& batch, const std::vector<at::Tensor>& leaf_grads,
                        WeightJobs& jobs) const override;

 private:
  std::shared_ptr<const TextData> text_;
  GptChunk chunk_;
};

}  // namespace sluice::gpt
