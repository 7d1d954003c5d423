#include "sluice/torch/deferred.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <array>
#include <tuple>
#include <utility>

#include "sluice/torch/process_group.hpp"

namespace sluice::gpt {
namespace {

using ::torch::autograd::AutogradContext;
using ::torch::autograd::variable_list;

constexpr double kNormEpsilon = 1e-5;

/// What a layer's backward needs besides tensors of the graph.
struct LayerCall final : ::torch::CustomClassHolder {
  LayerCall(const Parameter& matrix, const Parameter* offset, WeightJobs& left, LinearSums summed = {})
      : weight(matrix.value), weight_grad(matrix.grad), jobs(&left), sums(summed) {
    if (offset == nullptr) return;
    bias = offset->value;
    bias_grad = offset->grad;
  }

  at::Tensor weight;
  at::Tensor weight_grad;
  at::Tensor bias;       ///< undefined without a bias
  at::Tensor bias_grad;  ///< undefined without a bias
  WeightJobs* jobs;
  LinearSums sums;
};

using LayerCallPtr = c10::intrusive_ptr<LayerCall>;

void save_call(AutogradContext* context, const LayerCallPtr& call) {
  context->saved_data["call"] = c10::IValue::make_capsule(call);
}

LayerCallPtr saved_call(AutogradContext* context) {
  return c10::static_intrusive_pointer_cast<LayerCall>(context->saved_data["call"].toCapsule());
}

void sum_over(ProcessGroup* group, at::Tensor& tensor) {
  if (group == nullptr) return;
  tensor = tensor.contiguous();
  group->all_reduce_sum({tensor.mutable_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())});
}

at::Tensor as_rows(const at::Tensor& tensor) { return tensor.reshape({-1, tensor.size(-1)}); }

struct Linear : ::torch::autograd::Function<Linear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const LayerCallPtr& call) {
    context->save_for_backward({x});
    save_call(context, call);
    const bool has_bias = call->bias.defined();
    if (call->sums.output == nullptr) {
      return has_bias ? at::linear(x, call->weight, call->bias) : at::linear(x, call->weight);
    }
    at::Tensor y = at::linear(x, call->weight);
    sum_over(call->sums.output, y);
    return has_bias ? y.add_(call->bias) : y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_grads) {
    const LayerCallPtr call = saved_call(context);
    const at::Tensor x = context->get_saved_variables()[0].detach();
    const at::Tensor dy = as_rows(output_grads[0]);
    at::Tensor dx = at::mm(dy, call->weight).view_as(x);
    sum_over(call->sums.input_grad, dx);
    call->jobs->add([call, x = as_rows(x), dy] {
      call->weight_grad.addmm_(dy.t(), x);
      if (call->bias_grad.defined()) call->bias_grad.add_(dy.sum(0));
    });
    return {std::move(dx), at::Tensor()};
  }
};

struct LayerNorm : ::torch::autograd::Function<LayerNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const LayerCallPtr& call) {
    auto [y, mean, rstd] = at::native_layer_norm(x, {x.size(-1)}, call->weight, call->bias, kNormEpsilon);
    context->save_for_backward({x, mean, rstd});
    save_call(context, call);
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_grads) {
    const LayerCallPtr call = saved_call(context);
    const variable_list saved = context->get_saved_variables();
    const auto gradients = [call, x = saved[0].detach(), mean = saved[1], rstd = saved[2],
                            dy = output_grads[0].contiguous()](std::array<bool, 3> wanted) {
      return at::native_layer_norm_backward(dy, x, {x.size(-1)}, mean, rstd, call->weight, call->bias,
                                            wanted);
    };
    at::Tensor dx = std::get<0>(gradients({true, false, false}));
    call->jobs->add([call, gradients] {
      const auto [none, weight_grad, bias_grad] = gradients({false, true, true});
      call->weight_grad.add_(weight_grad);
      call->bias_grad.add_(bias_grad);
    });
    return {std::move(dx), at::Tensor()};
  }
};

}  // namespace

void WeightJobs::run() {
  const at::NoGradGuard no_graph;
  for (std::function<void()>& job : jobs_) {
    job();
    job = nullptr;
  }
  jobs_.clear();
}

at::Tensor deferred_linear(const at::Tensor& x, const Parameter& weight, const Parameter* bias,
                           WeightJobs& jobs, LinearSums sums) {
  return Linear::apply(x, c10::make_intrusive<LayerCall>(weight, bias, jobs, sums));
}

at::Tensor deferred_layer_norm(const at::Tensor& x, const Parameter& weight, const Parameter& bias,
                               WeightJobs& jobs) {
  return LayerNorm::apply(x, c10::make_intrusive<LayerCall>(weight, &bias, jobs));
}

at::Tensor embed(const at::Tensor& tokens, const Parameter& table, const Parameter& positions) {
  return at::embedding(table.value, tokens) + positions.value.narrow(0, 0, tokens.size(1));
}

void defer_embedding_gradient(const at::Tensor& tokens, const at::Tensor& output_grad, const Parameter& table,
                              const Parameter& positions, WeightJobs& jobs) {
  jobs.add([tokens, dy = output_grad.detach(), table = table.grad, positions = positions.grad] {
    table.index_add_(0, tokens.flatten(), as_rows(dy));
    const at::Tensor used_positions = positions.narrow(0, 0, tokens.size(1));
    for (const at::Tensor& row : dy.unbind(0)) used_positions.add_(row);
  });
}

}  // namespace sluice::gpt
