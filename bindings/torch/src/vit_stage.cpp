#include "vit_stage.hpp"

#include <ATen/ATen.h>

#include <span>
#include <sstream>

#include "sluice/error.hpp"

namespace sluice::gpt {
namespace {

std::span<float> values(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

void check_input(const at::Tensor& input, at::IntArrayRef expected) {
  if (input.scalar_type() == at::kFloat && input.sizes() == expected) return;
  std::ostringstream text;
  text << "an activation is " << input.scalar_type() << input.sizes() << " instead of " << at::kFloat
       << expected;
  throw Error(text.str());
}

}  // namespace

VitStage::VitStage(const GptConfig& config, const VitLayers& layers, Microbatch microbatches,
                   const Progress& progress, TensorParallel tensor)
    : ChunkStage(config, layers.encoder.has_first(), layers.decoder.has_last(config.layers), microbatches,
                 progress),
      data_(*config.encoder, config.context),
      chunk_(config, layers, tensor) {}

Batch VitStage::batch(const host::TaskContext& context) const {
  const ShapesData::Part part = context.forward_only ? ShapesData::Part::HeldOut : ShapesData::Part::Training;
  Batch data;
  data.grid = data_.grid(part, key(context));
  if (chunk_.is_first()) {
    data.patches =
        at::empty({config().micro_batch_size, data.grid.patches(), VitConfig::kPatchValues}, at::kFloat);
    data_.images(part, key(context), values(data.patches));
  }
  if (chunk_.joins() || chunk_.is_last()) {
    data.tokens = empty_tokens(config());
    data.targets = empty_tokens(config());
    data_.descriptions(part, key(context), elements(data.tokens), elements(data.targets));
    if (!chunk_.joins()) data.tokens.reset();
  }
  return data;
}

std::vector<at::Tensor> VitStage::leaves(const Batch& batch, const at::Tensor& input) const {
  std::vector<at::Tensor> all;
  if (chunk_.is_first()) {
    all.push_back(chunk_.embed_patches(batch.patches, batch.grid));
  } else {
    check_input(input, chunk_.input_shape(batch.grid.patches()));
    all.push_back(input);
  }
  if (chunk_.joins()) all.push_back(chunk_.embed_tokens(batch.tokens));
  return all;
}

at::Tensor VitStage::run(const std::vector<at::Tensor>& leaves, const Batch& batch, const Dropout& dropout,
                         WeightJobs& jobs) const {
  return chunk_.forward(leaves.front(), chunk_.joins() ? leaves.back() : at::Tensor(), batch.targets, dropout,
                        jobs);
}

void VitStage::defer_embeddings(const Batch& batch, const std::vector<at::Tensor>& leaf_grads,
                                WeightJobs& jobs) const {
  if (chunk_.is_first()) chunk_.defer_patches(batch.patches, batch.grid, leaf_grads.front(), jobs);
  if (chunk_.joins()) chunk_.defer_tokens(batch.tokens, leaf_grads.back(), jobs);
}

}  // namespace sluice::gpt
