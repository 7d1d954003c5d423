#include "gpt_stage.hpp"

#include <ATen/ATen.h>
#include <ATen/DLConvertor.h>

#include <utility>

#include "sluice/error.hpp"

namespace sluice::gpt {

GptStage::GptStage(const GptConfig& config, LayerRange layers, bool is_first, bool is_last,
                   Microbatch microbatches, std::shared_ptr<const TextData> text, const Progress& progress,
                   TensorParallel tensor)
    : ChunkStage(config, is_first, is_last, microbatches, progress),
      text_(std::move(text)),
      chunk_(config, layers, is_first, is_last, {}, tensor) {
  if (!text_) throw ConfigError("text", "a GPT without an image encoder learns from a text");
}

TensorShape GptStage::output_shape(std::size_t position) const {
  if (chunk_.is_last() || position != 0) return {};
  return {kDLFloat, 32, 3, {config().micro_batch_size, config().context, config().width}};
}

std::vector<ModelParameter*> GptStage::parameters() {
  std::vector<ModelParameter*> all;
  for (ModelParameter& parameter : chunk_.parameters()) all.push_back(&parameter);
  return all;
}

Batch GptStage::batch(const host::TaskContext& context) const {
  if (!chunk_.is_first() && !chunk_.is_last()) return {};
  Batch data;
  data.tokens = empty_tokens(config());
  data.targets = empty_tokens(config());
  if (context.forward_only) {
    text_->held_out_batch(key(context), elements(data.tokens), elements(data.targets));
  } else {
    text_->training_batch(key(context), elements(data.tokens), elements(data.targets));
  }
  if (!chunk_.is_first()) data.tokens.reset();
  return data;
}

std::vector<at::Tensor> GptStage::leaves(const Batch& batch, const at::Tensor& input) const {
  return {chunk_.is_first() ? chunk_.embed_tokens(batch.tokens) : input};
}

at::Tensor GptStage::run(const std::vector<at::Tensor>& leaves, const Batch& batch, const Dropout& dropout,
                         WeightJobs& jobs) const {
  return chunk_.forward(leaves.front(), batch.targets, dropout, jobs);
}

void GptStage::defer_embeddings(const Batch& batch, const std::vector<at::Tensor>& leaf_grads,
                                WeightJobs& jobs) const {
  if (chunk_.is_first()) chunk_.defer_embedding(batch.tokens, leaf_grads.front(), jobs);
}

}  // namespace sluice::gpt
