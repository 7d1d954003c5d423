#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <string>

#include "sluice/torch/deferred.hpp"
#include "sluice/torch/tensor_parallel.hpp"

namespace sluice::gpt {

/// A parameter with its place in the model, which does not depend on how the model is cut.
struct ModelParameter : Parameter {
  /// Position in the canonical order: embeddings, blocks from first to last, final norm, head, encoder.
  std::uint32_t index = 0;
  /// Weight decay applies.
  bool is_matrix = false;
  /// The head's copy of tied embeddings; it shares its index with the token embedding.
  bool is_tied_copy = false;
  /// Which part of the parameter `value` and `grad` are.
  Split split = Split::Whole;
};

/// Parameters of one chunk. An initial value depends on the seed and the parameter's index only, and a
/// member of a tensor-parallel group has its part of the same values.
/// Addresses are stable, also where the set is moved; a copy would leave them behind.
class ParameterSet {
 public:
  explicit ParameterSet(std::uint64_t seed, TensorParallel tensor = {}) : seed_(seed), tensor_(tensor) {}
  ParameterSet(ParameterSet&&) = default;

  /// Draws from a normal distribution of mean 0.
  /// @param rows, columns of the whole matrix
  ModelParameter* add_matrix(const std::string& name, std::uint32_t index, std::int64_t rows,
                             std::int64_t columns, double deviation, Split split = Split::Whole);
  /// @param size of the whole vector
  ModelParameter* add_vector(const std::string& name, std::uint32_t index, std::int64_t size, double value,
                             Split split = Split::Whole);

  [[nodiscard]] std::deque<ModelParameter>& all() noexcept { return parameters_; }

 private:
  ModelParameter* add(const std::string& name, std::uint32_t index, const at::Tensor& whole, Split split);

  std::uint64_t seed_;
  TensorParallel tensor_;
  std::deque<ModelParameter> parameters_;
};

}  // namespace sluice::gpt
