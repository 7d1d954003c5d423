#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "sluice/torch/deferred.hpp"
#include "sluice/torch/gpt_config.hpp"
#include "sluice/torch/parameter_set.hpp"
#include "sluice/torch/tensor_parallel.hpp"

namespace sluice::gpt {

/// Parameters of the whole GPT; a tied one counts once.
[[nodiscard]] std::uint32_t parameter_count(const GptConfig& config);

/// Parameters of so many transformer blocks.
[[nodiscard]] std::uint32_t block_parameter_count(std::uint32_t layers);

/// What tells the transformer blocks of a model's parts apart. The default is the GPT's.
struct BlockScope {
  /// Precedes the names of the parameters.
  std::string prefix;
  /// Index of the first parameter of the part's first block.
  std::uint32_t first_index = 2;
  /// Number of the part's first block in the random state of dropout.
  std::uint32_t first_layer = 0;
  /// A token sees itself and those before it; otherwise it sees all.
  bool is_causal = true;
};

/// Draws the dropout masks of one microbatch. Each mask depends on the seed, the step, the layer's
/// place in the whole model, the site and the microbatch only, never on the cut or the order of tasks.
class Dropout {
 public:
  enum class Site : std::uint64_t { Embedding, Attention, Mlp };

  /// Drops nothing.
  Dropout() = default;
  Dropout(double probability, std::uint64_t seed, std::uint64_t step, std::uint32_t microbatch)
      : probability_(probability), seed_(seed), step_(step), microbatch_(microbatch) {}
  /// Draws from torch's default generator of the tensors' device instead, which whoever runs the chunk has
  /// given the microbatch's state.
  [[nodiscard]] static Dropout of_default_generator(double probability) {
    Dropout dropout;
    dropout.probability_ = probability;
    dropout.default_generator_ = true;
    return dropout;
  }

  [[nodiscard]] at::Tensor operator()(const at::Tensor& x, std::uint32_t layer, Site site) const;

 private:
  double probability_ = 0.0;
  std::uint64_t seed_ = 0;
  std::uint64_t step_ = 0;
  std::uint32_t microbatch_ = 0;
  bool default_generator_ = false;
};

/// The layers of one chunk: pre-norm transformer blocks, with the embedding before them in the first
/// chunk and final norm, output projection and loss after them in the last.
class GptChunk {
 public:
  /// @param tensor the ranks that share the chunk's blocks
  GptChunk(const GptConfig& config, LayerRange layers, bool is_first, bool is_last, BlockScope scope = {},
           TensorParallel tensor = {});

  [[nodiscard]] bool is_first() const noexcept { return is_first_; }
  [[nodiscard]] bool is_last() const noexcept { return is_last_; }

  /// First chunk only: [rows, context] of tokens -> [rows, context, width], outside of the graph.
  [[nodiscard]] at::Tensor embed_tokens(const at::Tensor& tokens) const;
  void defer_embedding(const at::Tensor& tokens, const at::Tensor& output_grad, WeightJobs& jobs) const;

  /// All layers but the embedding: the activations [rows, tokens, width] for the next chunk or, in
  /// the last chunk, the mean cross-entropy of `targets`, which belong to the last tokens of each row.
  /// A target of -100 does not count.
  [[nodiscard]] at::Tensor forward(const at::Tensor& input, const at::Tensor& targets, const Dropout& dropout,
                                   WeightJobs& jobs) const;

  [[nodiscard]] std::deque<ModelParameter>& parameters() noexcept { return parameters_.all(); }

 private:
  struct Block {
    std::uint32_t layer;
    Parameter *norm1_weight, *norm1_bias, *qkv_weight, *qkv_bias, *projection_weight, *projection_bias;
    Parameter *norm2_weight, *norm2_bias, *expand_weight, *expand_bias, *contract_weight, *contract_bias;
  };

  void add_embedding();
  void add_block(std::uint32_t layer);
  void add_head();

  [[nodiscard]] at::Tensor attention(const Block& block, const at::Tensor& x, WeightJobs& jobs) const;
  [[nodiscard]] at::Tensor mlp(const Block& block, const at::Tensor& x, WeightJobs& jobs) const;
  [[nodiscard]] at::Tensor loss(const at::Tensor& x, const at::Tensor& targets, WeightJobs& jobs) const;

  GptConfig config_;
  BlockScope scope_;
  TensorParallel tensor_;
  bool is_first_;
  bool is_last_;
  ParameterSet parameters_;  // the members below point into it
  std::vector<Block> blocks_;
  Parameter* embedding_ = nullptr;
  Parameter* positions_ = nullptr;
  Parameter* final_norm_weight_ = nullptr;
  Parameter* final_norm_bias_ = nullptr;
  Parameter* head_ = nullptr;
};

}  // namespace sluice::gpt
