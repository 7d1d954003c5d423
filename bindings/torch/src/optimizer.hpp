#pragma once

#include <memory>
#include <vector>

#include "sluice/torch/gpt_chunk.hpp"

namespace torch::optim {
class AdamW;
}  // namespace torch::optim

namespace sluice::gpt {

/// Sum of the squares of all elements, in double precision and in memory order.
[[nodiscard]] double squared_norm(const at::Tensor& tensor);

/// LibTorch's AdamW over the parameters of one rank. It treats each element alone, so its result does
/// not depend on which parameters share a rank.
class Optimizer {
 public:
  /// @param parameters must outlive the optimizer
  Optimizer(const GptConfig& config, const std::vector<ModelParameter*>& parameters);
  ~Optimizer();

  /// Moves the parameters along the gradients accumulated in `Parameter::grad`.
  void step();

 private:
  std::unique_ptr<::torch::optim::AdamW> adamw_;
};

}  // namespace sluice::gpt
