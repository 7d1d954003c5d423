#include "gpt_stage.hpp"

#include <ATen/ATen.h>
#include <ATen/DLConvertor.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "sluice/error.hpp"
#include "sluice/torch/tensor_payload.hpp"

namespace sluice::gpt {
namespace {

std::span<std::int64_t> elements(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr<std::int64_t>(), static_cast<std::size_t>(tensor.numel())};
}

std::string in_slot(const host::TaskContext& context) {
  return "microbatch " + std::to_string(context.microbatch) + " in slot " + std::to_string(context.slot);
}

}  // namespace

GptStage::GptStage(const GptConfig& config, LayerRange layers, bool is_first, bool is_last,
                   Microbatch microbatches, std::shared_ptr<const TextData> text, const Progress& progress)
    : config_(config),
      text_(std::move(text)),
      progress_(progress),
      chunk_(config, layers, is_first, is_last),
      losses_(is_last ? microbatches : 0) {}

void GptStage::prepare(std::uint32_t slots) {
  at::set_num_threads(1);
  slots_.clear();
  slots_.resize(slots);
}

void GptStage::forward(const host::TaskContext& context, std::span<host::Payload> inputs,
                       std::span<host::Payload> outputs) {
  check(context);
  const at::AutoGradMode graph(!context.forward_only);
  auto saved = std::make_unique<Saved>();
  const Batch data = batch(context);
  if (chunk_.is_first()) {
    saved->tokens = data.inputs;
    saved->input = chunk_.embed_tokens(data.inputs);
  } else {
    saved->input = take_single(inputs, "activation");
  }
  saved->input.requires_grad_(!context.forward_only);
  saved->output = chunk_.forward(saved->input, data.targets, dropout(context), saved->jobs);
  if (chunk_.is_last()) {
    losses_.at(context.microbatch) = saved->output.item<float>();
  } else {
    put_single(saved->output, outputs, "activation");
  }
  if (!context.forward_only) slot_of(context) = std::move(saved);
}

void GptStage::backward(const host::TaskContext& context, bool whole, std::span<host::Payload> output_grads,
                        std::span<host::Payload> input_grads) {
  check(context);
  Saved& state = saved(context, "no forward was saved for ");
  // Each microbatch adds its share of the gradient of the mean loss.
  const at::Tensor output_grad = chunk_.is_last()
                                     ? at::full({}, 1.0 / static_cast<double>(losses_.size()), at::kFloat)
                                     : take_single(output_grads, "gradient");
  const at::Tensor input_grad =
      ::torch::autograd::grad({state.output}, {state.input}, {output_grad}).front().detach();
  state.input.reset();
  state.output.reset();
  if (chunk_.is_first()) {
    chunk_.defer_embedding(state.tokens, input_grad, state.jobs);
    state.tokens.reset();
  } else {
    put_single(input_grad, input_grads, "gradient");
  }
  if (whole) weight_grad(context);
}

void GptStage::weight_grad(const host::TaskContext& context) {
  check(context);
  Saved& state = saved(context, "no weight gradients are left for ");
  if (state.output.defined()) throw Error("weight gradients before the backward of " + in_slot(context));
  state.jobs.run();
  slot_of(context).reset();
}

TensorShape GptStage::output_shape(std::size_t position) const {
  if (chunk_.is_last() || position != 0) return {};
  return {kDLFloat, 32, 3, {config_.micro_batch_size, config_.context, config_.width}};
}

double GptStage::mean_loss() const {
  double sum = 0.0;
  for (const double loss : losses_) sum += loss;
  return sum / static_cast<double>(losses_.size());
}

std::size_t GptStage::saved_microbatches() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(slots_, [](const auto& slot) { return slot != nullptr; }));
}

void GptStage::check(const host::TaskContext& context) const {
  const bool forward_only = progress_.iteration.kind == IterationKind::ForwardOnly;
  if (context.iteration != progress_.iteration.index || context.forward_only != forward_only) {
    throw Error("a task of iteration " + std::to_string(context.iteration) + " ran in iteration " +
                std::to_string(progress_.iteration.index));
  }
}

GptStage::Batch GptStage::batch(const host::TaskContext& context) const {
  if (!chunk_.is_first() && !chunk_.is_last()) return {};
  const std::int64_t rows = config_.micro_batch_size;
  const std::int64_t tokens = config_.context;
  Batch data{at::empty({rows, tokens}, at::kLong), at::empty({rows, tokens}, at::kLong)};
  const BatchKey key{config_.seed, progress_.step, context.microbatch};
  if (context.forward_only) {
    text_->held_out_batch(key, elements(data.inputs), elements(data.targets));
  } else {
    text_->training_batch(key, elements(data.inputs), elements(data.targets));
  }
  return data;
}

Dropout GptStage::dropout(const host::TaskContext& context) const {
  if (context.forward_only) return {};
  return {config_.dropout, config_.seed, progress_.step, context.microbatch};
}

std::unique_ptr<GptStage::Saved>& GptStage::slot_of(const host::TaskContext& context) {
  if (context.slot >= slots_.size()) {
    throw Error("slot " + std::to_string(context.slot) + " of " + std::to_string(slots_.size()) +
                " prepared slots");
  }
  return slots_[context.slot];
}

GptStage::Saved& GptStage::saved(const host::TaskContext& context, const char* missing) {
  const std::unique_ptr<Saved>& slot = slot_of(context);
  if (!slot) throw Error(missing + in_slot(context));
  return *slot;
}

}  // namespace sluice::gpt
