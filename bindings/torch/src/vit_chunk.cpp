#include "sluice/torch/vit_chunk.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <utility>

#include "sluice/error.hpp"

namespace sluice::gpt {
namespace {

constexpr std::uint32_t kPatchParameters = 4;
constexpr std::uint32_t kConnectorParameters = 4;
constexpr double kDeviation = 0.02;
constexpr double kPositionDeviation = 0.1;  // as of the GPT's embeddings

/// The encoder's parameters follow the GPT's, so these keep their place.
std::uint32_t patch_index(const GptConfig& config) { return parameter_count(config); }
std::uint32_t block_index(const GptConfig& config) { return patch_index(config) + kPatchParameters; }
std::uint32_t connector_index(const GptConfig& config) {
  return block_index(config) + block_parameter_count(config.encoder->layers);
}

/// The encoder's blocks as those of a GPT of their size.
GptConfig block_config(const GptConfig& config) {
  GptConfig blocks = config;
  blocks.layers = config.encoder->layers;
  blocks.width = config.encoder->width;
  blocks.heads = config.encoder->heads;
  return blocks;
}

/// The part of a range of encoder and GPT blocks that lies in [first, first + count), from 0.
LayerRange part_of(const LayerRange& range, std::uint32_t first, std::uint32_t count) {
  const std::uint32_t begin = std::clamp(range.first, first, first + count);
  const std::uint32_t end = std::clamp(range.first + range.count, first, first + count);
  return {begin - first, end - begin};
}

/// Where each of `count` rows of patches, or columns, lies in a table for the largest image.
at::Tensor relative_positions(std::uint32_t count, std::uint32_t largest, at::Device device) {
  return at::arange(count, at::TensorOptions().dtype(at::kLong).device(device))
      .mul_(largest)
      .div_(count, "floor");
}

at::Tensor in_grid(const at::Tensor& tokens, const ImageGrid& grid) {
  return tokens.view({-1, grid.rows, grid.columns, tokens.size(-1)});
}

}  // namespace

std::vector<VitLayers> divide_vit_layers(const GptConfig& config, std::uint32_t chunks) {
  const VitConfig& encoder = *config.encoder;
  std::vector<VitLayers> layers;
  if (encoder.chunks == 0) {
    for (const LayerRange& range : divide_layers(encoder.layers + config.layers, chunks))
      layers.push_back({part_of(range, 0, encoder.layers), part_of(range, encoder.layers, config.layers)});
    return layers;
  }
  if (encoder.chunks >= chunks) {
    throw ConfigError("encoder-chunks", "of " + std::to_string(chunks) + " chunks " +
                                            std::to_string(encoder.chunks) + " leave none to the GPT");
  }
  for (const LayerRange& range : divide_layers(encoder.layers, encoder.chunks)) layers.push_back({range, {}});
  for (const LayerRange& range : divide_layers(config.layers, chunks - encoder.chunks))
    layers.push_back({{encoder.layers, 0}, range});
  return layers;
}

std::uint32_t model_parameter_count(const GptConfig& config) {
  return config.encoder ? connector_index(config) + kConnectorParameters : parameter_count(config);
}

VitChunk::VitChunk(const GptConfig& config, const VitLayers& layers, TensorParallel tensor)
    : config_(config),
      encoder_config_(*config.encoder),
      is_first_(layers.encoder.has_first()),
      ends_encoder_(layers.encoder.has_last(config.encoder->layers)),
      joins_(layers.decoder.has_first()),
      is_last_(layers.decoder.has_last(config.layers)),
      parameters_(config.seed) {
  if (is_first_) add_patch_embedding();
  if (layers.encoder.count > 0) {
    const BlockScope scope{"encoder.", block_index(config), config.layers, /*is_causal=*/false};
    encoder_.emplace(block_config(config), layers.encoder, false, false, scope, tensor);
  }
  if (ends_encoder_) add_connector();
  if (layers.decoder.count > 0)
    decoder_.emplace(config, layers.decoder, joins_, is_last_, BlockScope{}, tensor);
}

void VitChunk::add_patch_embedding() {
  const std::int64_t width = encoder_config_.width;
  const std::int64_t largest = encoder_config_.largest_grid;
  std::uint32_t index = patch_index(config_);
  patch_weight_ =
      parameters_.add_matrix("encoder.patch.weight", index++, width, VitConfig::kPatchValues, kDeviation);
  patch_bias_ = parameters_.add_vector("encoder.patch.bias", index++, width, 0.0);
  row_positions_ = parameters_.add_matrix("encoder.rows.weight", index++, largest, width, kPositionDeviation);
  column_positions_ =
      parameters_.add_matrix("encoder.columns.weight", index++, largest, width, kPositionDeviation);
}

void VitChunk::add_connector() {
  const std::int64_t width = encoder_config_.width;
  std::uint32_t index = connector_index(config_);
  norm_weight_ = parameters_.add_vector("encoder.norm.weight", index++, width, 1.0);
  norm_bias_ = parameters_.add_vector("encoder.norm.bias", index++, width, 0.0);
  connector_weight_ =
      parameters_.add_matrix("encoder.connector.weight", index++, config_.width, width, kDeviation);
  connector_bias_ = parameters_.add_vector("encoder.connector.bias", index++, config_.width, 0.0);
}

std::vector<std::int64_t> VitChunk::input_shape(std::uint32_t patches) const {
  const std::uint32_t tokens = encoder_ || joins_ ? patches : patches + config_.context;
  return {config_.micro_batch_size, tokens, encoder_ ? encoder_config_.width : config_.width};
}

at::Tensor VitChunk::embed_patches(const at::Tensor& patches, const ImageGrid& grid) const {
  const std::uint32_t largest = encoder_config_.largest_grid;
  const at::Tensor rows =
      row_positions_->value.index_select(0, relative_positions(grid.rows, largest, patches.device()));
  const at::Tensor columns =
      column_positions_->value.index_select(0, relative_positions(grid.columns, largest, patches.device()));
  const at::Tensor tokens = at::linear(patches, patch_weight_->value, patch_bias_->value);
  return (in_grid(tokens, grid) + rows.unsqueeze(1) + columns).view_as(tokens);
}

void VitChunk::defer_patches(const at::Tensor& patches, const ImageGrid& grid, const at::Tensor& output_grad,
                             WeightJobs& jobs) const {
  jobs.add([patches, grid, dy = output_grad.detach().contiguous(), largest = encoder_config_.largest_grid,
            weight = patch_weight_->grad, bias = patch_bias_->grad, rows = row_positions_->grad,
            columns = column_positions_->grad] {
    const at::Tensor tokens = dy.flatten(0, 1);
    weight.addmm_(tokens.t(), patches.flatten(0, 1));
    bias.add_(tokens.sum(0));
    const at::Tensor of_grid = in_grid(dy, grid);
    rows.index_add_(0, relative_positions(grid.rows, largest, dy.device()), of_grid.sum({0, 2}));
    columns.index_add_(0, relative_positions(grid.columns, largest, dy.device()), of_grid.sum({0, 1}));
  });
}

at::Tensor VitChunk::embed_tokens(const at::Tensor& tokens) const { return decoder_->embed_tokens(tokens); }

void VitChunk::defer_tokens(const at::Tensor& tokens, const at::Tensor& output_grad, WeightJobs& jobs) const {
  decoder_->defer_embedding(tokens, output_grad, jobs);
}

at::Tensor VitChunk::forward(const at::Tensor& image, const at::Tensor& text, const at::Tensor& targets,
                             const Dropout& dropout, WeightJobs& jobs) const {
  at::Tensor x = image;
  // The number of the encoder's first block, which has no such site of its own.
  if (is_first_) x = dropout(x, config_.layers, Dropout::Site::Embedding);
  if (encoder_) x = encoder_->forward(x, {}, dropout, jobs);
  if (ends_encoder_) {
    x = deferred_layer_norm(x, *norm_weight_, *norm_bias_, jobs);
    x = deferred_linear(x, *connector_weight_, connector_bias_, jobs);
  }
  if (joins_) x = at::cat({x, text}, 1);
  return decoder_ ? decoder_->forward(x, targets, dropout, jobs) : x;
}

std::vector<ModelParameter*> VitChunk::parameters() {
  std::vector<ModelParameter*> all;
  const auto add = [&](std::deque<ModelParameter>& parameters) {
    for (ModelParameter& parameter : parameters) all.push_back(&parameter);
  };
  add(parameters_.all());
  if (encoder_) add(encoder_->parameters());
  if (decoder_) add(decoder_->parameters());
  return all;
}

}  // namespace sluice::gpt
