#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "sluice/torch/deferred.hpp"
#include "sluice/torch/gpt_config.hpp"

namespace sluice::gpt {

/// A parameter with its place in the model, which does not depend on how the model is cut.
struct ModelParameter : Parameter {
  /// Position in the canonical order: embeddings, blocks from first to last, final norm, head.
  std::uint32_t index = 0;
  /// Weight decay applies.
  bool is_matrix = false;
  /// The head's copy of tied embeddings; it shares its index with the token embedding.
  bool is_tied_copy = false;
};

/// Parameters of the whole model; a tied one counts once.
[[nodiscard]] std::uint32_t parameter_count(const GptConfig& config);

/// Draws the dropout masks of one microbatch. Each mask depends on the seed, the step, the layer's
/// place in the whole model, the site and the microbatch only, never on the cut or the order of tasks.
class Dropout {
 public:
  enum class Site : std::uint64_t { Embedding, Attention, Mlp };

  /// Drops nothing.
  Dropout() = default;
  Dropout(double probability, std::uint64_t seed, std::uint64_t step, std::uint32_t microbatch)
      : probability_(probability), seed_(seed), step_(step), microbatch_(microbatch) {}

  [[nodiscard]] at::Tensor operator()(const at::Tensor& x, std::uint32_t layer, Site site) const;

 private:
  double probability_ = 0.0;
  std::uint64_t seed_ = 0;
  std::uint64_t step_ = 0;
  std::uint32_t microbatch_ = 0;
};

/// The layers of one chunk: pre-norm transformer blocks, with the embedding before them in the first
/// chunk and final norm, output projection and loss after them in the last.
class GptChunk {
 public:
  GptChunk(const GptConfig& config, LayerRange layers, bool is_first, bool is_last);

  [[nodiscard]] bool is_first() const noexcept { return is_first_; }
  [[nodiscard]] bool is_last() const noexcept { return is_last_; }

  /// First chunk only: [rows, context] of tokens -> [rows, context, width], outside of the graph.
  [[nodiscard]] at::Tensor embed_tokens(const at::Tensor& tokens) const;
  void defer_embedding(const at::Tensor& tokens, const at::Tensor& output_grad, WeightJobs& jobs) const;

  /// All layers but the embedding: the activations [rows, context, width] for the next chunk or, in
  /// the last chunk, the mean cross-entropy of `targets`.
  [[nodiscard]] at::Tensor forward(const at::Tensor& input, const at::Tensor& targets, const Dropout& dropout,
                                   WeightJobs& jobs) const;

  [[nodiscard]] std::deque<ModelParameter>& parameters() noexcept { return parameters_; }

 private:
  struct Block {
    std::uint32_t layer;
    Parameter *norm1_weight, *norm1_bias, *qkv_weight, *qkv_bias, *projection_weight, *projection_bias;
    Parameter *norm2_weight, *norm2_bias, *expand_weight, *expand_bias, *contract_weight, *contract_bias;
  };

  void add_embedding();
  void add_block(std::uint32_t layer);
  void add_head();
  Parameter* add_matrix(const std::string& name, std::uint32_t index, std::int64_t rows, std::int64_t columns,
                        double deviation);
  Parameter* add_vector(const std::string& name, std::uint32_t index, std::int64_t size, double value);
  Parameter* add(const std::string& name, std::uint32_t index, at::Tensor value);

  [[nodiscard]] at::Tensor attention(const Block& block, const at::Tensor& x, WeightJobs& jobs) const;
  [[nodiscard]] at::Tensor mlp(const Block& block, const at::Tensor& x, WeightJobs& jobs) const;
  [[nodiscard]] at::Tensor loss(const at::Tensor& x, const at::Tensor& targets, WeightJobs& jobs) const;

  GptConfig config_;
  bool is_first_;
  bool is_last_;
  std::deque<ModelParameter> parameters_;  // a deque, because the members below point into it
  std::vector<Block> blocks_;
  Parameter* embedding_ = nullptr;
  Parameter* positions_ = nullptr;
  Parameter* final_norm_weight_ = nullptr;
  Parameter* final_norm_bias_ = nullptr;
  Parameter* head_ = nullptr;
};

}  // namespace sluice::gpt
