#include "sluice/torch/gpt_chunk.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <string>
#include <utility>

#include "counter_hash.hpp"
#include "generator.hpp"

namespace sluice::gpt {
namespace {

constexpr std::uint32_t kEmbeddingParameters = 2;
constexpr std::uint32_t kBlockParameters = 12;
constexpr std::uint32_t kFinalNormParameters = 2;
constexpr double kDeviation = 0.02;  // of the initial weights, as in GPT-2
// Larger than GPT-2's: a residual stream near zero makes the first norms so steep that training
// without a warm-up jumps.
constexpr double kEmbeddingDeviation = 0.1;
constexpr const char* kEmbeddingName = "embedding.weight";

std::uint32_t final_norm_index(const GptConfig& config) {
  return kEmbeddingParameters + kBlockParameters * config.layers;
}

}  // namespace

std::uint32_t parameter_count(const GptConfig& config) {
  return final_norm_index(config) + kFinalNormParameters + (config.tied_embeddings ? 0 : 1);
}

std::uint32_t block_parameter_count(std::uint32_t layers) { return kBlockParameters * layers; }

at::Tensor Dropout::operator()(const at::Tensor& x, std::uint32_t layer, Site site) const {
  if (probability_ == 0.0) return x;
  const double kept = 1.0 - probability_;
  if (default_generator_) return x * at::empty(x.sizes(), x.options()).bernoulli_(kept).div_(kept);
  const std::uint64_t seed = counter_hash(
      {counter(RandomUse::Dropout), seed_, step_, layer, static_cast<std::uint64_t>(site), microbatch_});
  const at::Tensor mask = at::empty(x.sizes(), x.options()).bernoulli_(kept, generator_of(seed)).div_(kept);
  return x * mask;
}

GptChunk::GptChunk(const GptConfig& config, LayerRange layers, bool is_first, bool is_last, BlockScope scope,
                   TensorParallel tensor)
    : config_(config),
      scope_(std::move(scope)),
      tensor_(tensor),
      is_first_(is_first),
      is_last_(is_last),
      parameters_(config.seed, tensor) {
  if (is_first_) add_embedding();
  for (std::uint32_t layer = layers.first; layer < layers.first + layers.count; ++layer) add_block(layer);
  if (is_last_) add_head();
}

void GptChunk::add_embedding() {
  embedding_ =
      parameters_.add_matrix(kEmbeddingName, 0, config_.vocabulary, config_.width, kEmbeddingDeviation);
  positions_ =
      parameters_.add_matrix("positions.weight", 1, config_.context, config_.width, kEmbeddingDeviation);
}

void GptChunk::add_block(std::uint32_t layer) {
  const std::string prefix = scope_.prefix + "block" + std::to_string(layer) + ".";
  const std::int64_t width = config_.width;
  // Both branches add to the residual stream, so their last projection is scaled down as in GPT-2.
  const double residual_deviation = kDeviation / std::sqrt(2.0 * config_.layers);
  std::uint32_t index = scope_.first_index + kBlockParameters * layer;
  const auto matrix = [&](const char* name, std::int64_t rows, std::int64_t columns, double deviation,
                          Split split) {
    return parameters_.add_matrix(prefix + name, index++, rows, columns, deviation, split);
  };
  const auto vector = [&](const char* name, std::int64_t size, double value, Split split = Split::Whole) {
    return parameters_.add_vector(prefix + name, index++, size, value, split);
  };
  Block block{};
  block.layer = scope_.first_layer + layer;
  block.norm1_weight = vector("norm1.weight", width, 1.0);
  block.norm1_bias = vector("norm1.bias", width, 0.0);
  block.qkv_weight = matrix("qkv.weight", 3 * width, width, kDeviation, Split::HeadRows);
  block.qkv_bias = vector("qkv.bias", 3 * width, 0.0, Split::HeadRows);
  block.projection_weight = matrix("projection.weight", width, width, residual_deviation, Split::Columns);
  block.projection_bias = vector("projection.bias", width, 0.0);
  block.norm2_weight = vector("norm2.weight", width, 1.0);
  block.norm2_bias = vector("norm2.bias", width, 0.0);
  block.expand_weight = matrix("expand.weight", 4 * width, width, kDeviation, Split::Rows);
  block.expand_bias = vector("expand.bias", 4 * width, 0.0, Split::Rows);
  block.contract_weight = matrix("contract.weight", width, 4 * width, residual_deviation, Split::Columns);
  block.contract_bias = vector("contract.bias", width, 0.0);
  blocks_.push_back(block);
}

void GptChunk::add_head() {
  const std::uint32_t index = final_norm_index(config_);
  final_norm_weight_ = parameters_.add_vector("final_norm.weight", index, config_.width, 1.0);
  final_norm_bias_ = parameters_.add_vector("final_norm.bias", index + 1, config_.width, 0.0);
  const bool tied = config_.tied_embeddings;
  ModelParameter* const head =
      tied ? parameters_.add_matrix(kEmbeddingName, 0, config_.vocabulary, config_.width, kEmbeddingDeviation)
           : parameters_.add_matrix("head.weight", index + kFinalNormParameters, config_.vocabulary,
                                    config_.width, kDeviation);
  head->is_tied_copy = tied;
  head_ = head;
}

at::Tensor GptChunk::embed_tokens(const at::Tensor& tokens) const {
  return embed(tokens, *embedding_, *positions_);
}

void GptChunk::defer_embedding(const at::Tensor& tokens, const at::Tensor& output_grad,
                               WeightJobs& jobs) const {
  defer_embedding_gradient(tokens, output_grad, *embedding_, *positions_, jobs);
}

at::Tensor GptChunk::forward(const at::Tensor& input, const at::Tensor& targets, const Dropout& dropout,
                             WeightJobs& jobs) const {
  at::Tensor x = is_first_ ? dropout(input, 0, Dropout::Site::Embedding) : input;
  for (const Block& block : blocks_) {
    x = x + dropout(attention(block, x, jobs), block.layer, Dropout::Site::Attention);
    x = x + dropout(mlp(block, x, jobs), block.layer, Dropout::Site::Mlp);
  }
  return is_last_ ? loss(x, targets, jobs) : x;
}

at::Tensor GptChunk::attention(const Block& block, const at::Tensor& x, WeightJobs& jobs) const {
  const std::int64_t rows = x.size(0);
  const std::int64_t tokens = x.size(1);
  const std::int64_t heads = config_.heads / tensor_.members();  // this member's
  const at::Tensor normed = deferred_layer_norm(x, *block.norm1_weight, *block.norm1_bias, jobs);
  const auto qkv =
      deferred_linear(normed, *block.qkv_weight, block.qkv_bias, jobs, {.input_grad = tensor_.group})
          .view({rows, tokens, 3, heads, config_.width / config_.heads})
          .permute({2, 0, 3, 1, 4})
          .unbind(0);
  const at::Tensor mixed = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], /*attn_mask=*/{},
                                                            /*dropout_p=*/0.0, scope_.is_causal);
  return deferred_linear(mixed.transpose(1, 2).reshape({rows, tokens, -1}), *block.projection_weight,
                         block.projection_bias, jobs, {.output = tensor_.group});
}

at::Tensor GptChunk::mlp(const Block& block, const at::Tensor& x, WeightJobs& jobs) const {
  const at::Tensor normed = deferred_layer_norm(x, *block.norm2_weight, *block.norm2_bias, jobs);
  const at::Tensor hidden = at::gelu(
      deferred_linear(normed, *block.expand_weight, block.expand_bias, jobs, {.input_grad = tensor_.group}));
  return deferred_linear(hidden, *block.contract_weight, block.contract_bias, jobs,
                         {.output = tensor_.group});
}

at::Tensor GptChunk::loss(const at::Tensor& x, const at::Tensor& targets, WeightJobs& jobs) const {
  const std::int64_t tokens = targets.size(1);
  const at::Tensor read = x.narrow(1, x.size(1) - tokens, tokens).contiguous();
  const at::Tensor normed = deferred_layer_norm(read, *final_norm_weight_, *final_norm_bias_, jobs);
  const at::Tensor logits = deferred_linear(normed, *head_, nullptr, jobs);
  return at::cross_entropy_loss(logits.flatten(0, 1), targets.flatten());
}

}  // namespace sluice::gpt
