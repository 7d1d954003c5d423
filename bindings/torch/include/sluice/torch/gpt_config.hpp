#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sluice/torch/vit_config.hpp"

namespace sluice::gpt {

/// Size, optimisation and random state of a byte-level GPT. The defaults learn on a few tens of
/// kilobytes of English within twenty steps of sixteen microbatches.
struct GptConfig {
  std::uint32_t layers = 4;
  std::uint32_t width = 64;
  std::uint32_t heads = 4;
  /// Tokens of one row.
  std::uint32_t context = 64;
  std::uint32_t vocabulary = 256;
  /// Rows of one microbatch.
  std::uint32_t micro_batch_size = 4;
  /// Probability of dropping an element; 0 switches dropout off.
  double dropout = 0.0;
  /// The output projection is the token embedding.
  bool tied_embeddings = false;
  std::uint64_t seed = 1;
  /// Makes it a multimodal model, which learns to describe images instead of continuing a text.
  std::optional<VitConfig> encoder;

  double learning_rate = 3e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  /// Applied to matrices only, not to biases and norms.
  double weight_decay = 0.1;
  /// Largest global gradient norm; 0 switches clipping off.
  double clip_norm = 1.0;

  /// @throws ConfigError naming the first bad field as the command line spells it (`micro-batch-size`)
  void validate() const;
};

/// Consecutive transformer blocks.
struct LayerRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;

  /// Holds the first of all blocks.
  [[nodiscard]] bool has_first() const noexcept { return count > 0 && first == 0; }
  /// Holds the last of so many blocks.
  [[nodiscard]] bool has_last(std::uint32_t layers) const noexcept {
    return count > 0 && first + count == layers;
  }

  friend bool operator==(const LayerRange&, const LayerRange&) = default;
};

/// Divides the blocks over a chain of chunks as evenly as possible, larger shares first. Embedding
/// and head come on top: they belong to the first and the last chunk.
/// @throws ConfigError naming `stages` if a chunk would have no block
[[nodiscard]] std::vector<LayerRange> divide_layers(std::uint32_t layers, std::uint32_t chunks);

}  // namespace sluice::gpt
