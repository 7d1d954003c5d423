#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace sluice::gpt {

class ProcessGroup;

/// A trained tensor with its one gradient accumulator. Neither takes part in an autograd graph: the
/// layers below add to `grad` in place, when their weight gradients run.
struct Parameter {
  std::string name;
  at::Tensor value;
  /// Same shape as `value`, allocated once and zeroed in place at each iteration.
  at::Tensor grad;
};

/// The weight gradients a backward left to be computed, in the order they were left.
///
/// A job holds the tensors it needs and adds to a `Parameter::grad` in place. Running the jobs at
/// once or later executes the same kernels in the same order, so the result is equal bit for bit.
class WeightJobs {
 public:
  void add(std::function<void()> job) { jobs_.push_back(std::move(job)); }

  /// Runs all jobs and frees each after it ran.
  void run();

  [[nodiscard]] bool empty() const noexcept { return jobs_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return jobs_.size(); }

 private:
  std::vector<std::function<void()>> jobs_;
};

/// What a linear layer that is divided over a tensor-parallel group adds up, and over which ranks; null
/// for what it computes alone (Shoeybi et al., Megatron-LM, arXiv:1909.08053, section 3).
struct LinearSums {
  /// Of a layer that has some of the input columns of W: the product, before the bias is added once.
  ProcessGroup* output = nullptr;
  /// Of a layer that has some of the output rows of W: the gradient of x. The backward blocks for it; the
  /// jobs it leaves never do.
  ProcessGroup* input_grad = nullptr;
};

/// y = x W^T + b. The backward computes x's gradient and leaves those of W and b to `jobs`, which
/// must outlive the graph.
/// @param x [..., in], contiguous
/// @param weight [out, in]
/// @param bias [out], or null for none
/// @param sums of a divided layer; its groups outlive the graph
[[nodiscard]] at::Tensor deferred_linear(const at::Tensor& x, const Parameter& weight, const Parameter* bias,
                                         WeightJobs& jobs, LinearSums sums = {});

/// Normalises the last dimension. The backward computes x's gradient and leaves those of `weight`
/// and `bias` to `jobs`, which must outlive the graph.
/// @param x [..., width], contiguous
/// @param weight, bias [width]
[[nodiscard]] at::Tensor deferred_layer_norm(const at::Tensor& x, const Parameter& weight,
                                             const Parameter& bias, WeightJobs& jobs);

/// Token embedding plus learned positions: [rows, context] of integers -> [rows, context, width].
/// It has no input to differentiate: leave its gradient with `defer_embedding_gradient`.
[[nodiscard]] at::Tensor embed(const at::Tensor& tokens, const Parameter& table, const Parameter& positions);

/// Leaves the gradients of `table` and `positions` to `jobs`.
/// @param output_grad gradient of what `embed` returned
void defer_embedding_gradient(const at::Tensor& tokens, const at::Tensor& output_grad, const Parameter& table,
                              const Parameter& positions, WeightJobs& jobs);

}  // namespace sluice::gpt
