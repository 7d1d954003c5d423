#include "optimizer.hpp"

#include <torch/optim/adamw.h>

#include <span>
#include <utility>

namespace sluice::gpt {
namespace {

using ::torch::optim::AdamWOptions;
using ::torch::optim::OptimizerParamGroup;

OptimizerParamGroup make_group(std::vector<at::Tensor> values, const GptConfig& config, double weight_decay) {
  auto options = std::make_unique<AdamWOptions>(config.learning_rate);
  options->betas({config.beta1, config.beta2}).eps(config.epsilon).weight_decay(weight_decay);
  return {std::move(values), std::move(options)};
}

}  // namespace

double squared_norm(const at::Tensor& tensor) {
  double sum = 0.0;
  for (const float element :
       std::span(tensor.const_data_ptr<float>(), static_cast<std::size_t>(tensor.numel()))) {
    sum += static_cast<double>(element) * element;
  }
  return sum;
}

Optimizer::Optimizer(const GptConfig& config, const std::vector<ModelParameter*>& parameters) {
  std::vector<at::Tensor> matrices;
  std::vector<at::Tensor> vectors;
  for (ModelParameter* parameter : parameters) {
    parameter->value.mutable_grad() = parameter->grad;
    (parameter->is_matrix ? matrices : vectors).push_back(parameter->value);
  }
  std::vector<OptimizerParamGroup> groups;
  if (!matrices.empty()) groups.push_back(make_group(std::move(matrices), config, config.weight_decay));
  if (!vectors.empty()) groups.push_back(make_group(std::move(vectors), config, 0.0));
  adamw_ = std::make_unique<::torch::optim::AdamW>(std::move(groups), AdamWOptions(config.learning_rate));
}

Optimizer::~Optimizer() = default;

void Optimizer::step() { adamw_->step(); }

}  // namespace sluice::gpt
