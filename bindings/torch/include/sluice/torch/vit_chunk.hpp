#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "sluice/torch/deferred.hpp"
#include "sluice/torch/gpt_chunk.hpp"
#include "sluice/torch/gpt_config.hpp"
#include "sluice/torch/parameter_set.hpp"
#include "sluice/torch/shapes_data.hpp"
#include "sluice/torch/tensor_parallel.hpp"

namespace sluice::gpt {

/// Consecutive blocks of the encoder, of the GPT, or the encoder's last and the GPT's first.
struct VitLayers {
  LayerRange encoder;
  LayerRange decoder;

  friend bool operator==(const VitLayers&, const VitLayers&) = default;
};

/// Divides the blocks of encoder and GPT over a chain of chunks, each part or both together as evenly as
/// possible, as `VitConfig::chunks` says.
/// @param config of a model with an encoder
/// @throws ConfigError naming `stages` or `encoder-chunks` if a chunk would have no block
[[nodiscard]] std::vector<VitLayers> divide_vit_layers(const GptConfig& config, std::uint32_t chunks);

/// Parameters of the whole model, the encoder's included; a tied one counts once.
[[nodiscard]] std::uint32_t model_parameter_count(const GptConfig& config);

/// The layers of one chunk of a GPT that describes images.
///
/// An image is cut into patches, each embedded as one token with learned positions of its row and column
/// relative to the image's size. Transformer blocks without a causal mask, a norm and a projection to
/// the GPT's width make the tokens that precede those of the text in the GPT.
class VitChunk {
 public:
  /// @param config of a model with an encoder
  /// @param tensor the ranks that share the chunk's blocks
  VitChunk(const GptConfig& config, const VitLayers& layers, TensorParallel tensor = {});

  /// Embeds the patches.
  [[nodiscard]] bool is_first() const noexcept { return is_first_; }
  /// Holds the GPT's first block, and so embeds the text and joins it to the image.
  [[nodiscard]] bool joins() const noexcept { return joins_; }
  /// Computes the loss.
  [[nodiscard]] bool is_last() const noexcept { return is_last_; }
  /// Shape of the chunk's input for images of so many patches.
  [[nodiscard]] std::vector<std::int64_t> input_shape(std::uint32_t patches) const;

  /// First chunk only: [rows, patches, VitConfig::kPatchValues] -> [rows, patches, encoder width], outside
  /// of the graph.
  [[nodiscard]] at::Tensor embed_patches(const at::Tensor& patches, const ImageGrid& grid) const;
  void defer_patches(const at::Tensor& patches, const ImageGrid& grid, const at::Tensor& output_grad,
                     WeightJobs& jobs) const;

  /// Joining chunk only: as `GptChunk::embed_tokens`.
  [[nodiscard]] at::Tensor embed_tokens(const at::Tensor& tokens) const;
  void defer_tokens(const at::Tensor& tokens, const at::Tensor& output_grad, WeightJobs& jobs) const;

  /// All layers but the embeddings.
  /// @param image [rows, tokens, width]: embedded patches or the chunk before's activations
  /// @param text embedded text, in the joining chunk
  /// @return activations [rows, tokens, width] or, in the last chunk, the mean cross-entropy of `targets`
  [[nodiscard]] at::Tensor forward(const at::Tensor& image, const at::Tensor& text, const at::Tensor& targets,
                                   const Dropout& dropout, WeightJobs& jobs) const;

  [[nodiscard]] std::vector<ModelParameter*> parameters();

 private:
  void add_patch_embedding();
  void add_connector();

  GptConfig config_;
  VitConfig encoder_config_;
  bool is_first_;
  bool ends_encoder_;
  bool joins_;
  bool is_last_;
  ParameterSet parameters_;  // the members below point into it
  std::optional<GptChunk> encoder_;
  std::optional<GptChunk> decoder_;
  Parameter* patch_weight_ = nullptr;
  Parameter* patch_bias_ = nullptr;
  Parameter* row_positions_ = nullptr;
  Parameter* column_positions_ = nullptr;
  Parameter* norm_weight_ = nullptr;
  Parameter* norm_bias_ = nullptr;
  Parameter* connector_weight_ = nullptr;
  Parameter* connector_bias_ = nullptr;
};

}  // namespace sluice::gpt
