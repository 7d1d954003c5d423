#include "sluice/torch/parameter_set.hpp"

#include <ATen/ATen.h>

#include <utility>

#include "counter_hash.hpp"
#include "generator.hpp"

namespace sluice::gpt {

ModelParameter* ParameterSet::add(const std::string& name, std::uint32_t index, const at::Tensor& whole,
                                  Split split) {
  ModelParameter parameter;
  parameter.split = tensor_.members() > 1 ? split : Split::Whole;
  parameter.value = part_of(whole, parameter.split, tensor_);
  parameter.name = name;
  parameter.index = index;
  parameter.is_matrix = whole.dim() > 1;
  parameter.grad = at::zeros_like(parameter.value);
  return &parameters_.emplace_back(std::move(parameter));
}

ModelParameter* ParameterSet::add_matrix(const std::string& name, std::uint32_t index, std::int64_t rows,
                                         std::int64_t columns, double deviation, Split split) {
  const std::uint64_t seed = counter_hash({counter(RandomUse::Initialisation), seed_, index});
  return add(name, index, at::empty({rows, columns}, at::kFloat).normal_(0.0, deviation, generator_of(seed)),
             split);
}

ModelParameter* ParameterSet::add_vector(const std::string& name, std::uint32_t index, std::int64_t size,
                                         double value, Split split) {
  return add(name, index, at::full({size}, value, at::kFloat), split);
}

}  // namespace sluice::gpt
