#include "chunk_stage.hpp"

#include <ATen/ATen.h>
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

std::string in_slot(const host::TaskContext& context) {
  return "microbatch " + std::to_string(context.microbatch) + " in slot " + std::to_string(context.slot);
}

}  // namespace

at::Tensor empty_tokens(const GptConfig& config) {
  return at::empty({config.micro_batch_size, config.context}, at::kLong);
}

std::span<std::int64_t> elements(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr<std::int64_t>(), static_cast<std::size_t>(tensor.numel())};
}

ChunkStage::ChunkStage(const GptConfig& config, bool is_first, bool is_last, Microbatch microbatches,
                       const Progress& progress)
    : config_(config),
      is_first_(is_first),
      is_last_(is_last),
      microbatches_(microbatches),
      progress_(progress),
      losses_(is_last ? microbatches : 0) {}

void ChunkStage::prepare(std::uint32_t slots) {
  at::set_num_threads(1);
  slots_.clear();
  slots_.resize(slots);
}

void ChunkStage::forward(const host::TaskContext& context, std::span<host::Payload> inputs,
                         std::span<host::Payload> outputs) {
  check(context);
  const at::AutoGradMode graph(!context.forward_only);
  auto saved = std::make_unique<Saved>();
  saved->batch = batch(context);
  saved->leaves = leaves(saved->batch, is_first_ ? at::Tensor() : take_single(inputs, "activation"));
  for (const at::Tensor& leaf : saved->leaves) leaf.requires_grad_(!context.forward_only);
  saved->output = run(saved->leaves, saved->batch, dropout(context), saved->jobs);
  saved->batch.targets.reset();
  if (is_last_) {
    losses_.at(context.microbatch) = saved->output.item<float>();
  } else {
    put_single(saved->output, outputs, "activation");
  }
  if (!context.forward_only) slot_of(context) = std::move(saved);
}

void ChunkStage::backward(const host::TaskContext& context, bool whole, std::span<host::Payload> output_grads,
                          std::span<host::Payload> input_grads) {
  check(context);
  Saved& state = saved(context, "no forward was saved for ");
  // Each microbatch adds its share of the gradient of the mean loss of all replicas.
  const double share = 1.0 / (static_cast<double>(microbatches_) * progress_.replicas);
  const at::Tensor output_grad =
      is_last_ ? at::full({}, share, at::kFloat) : take_single(output_grads, "gradient");
  std::vector<at::Tensor> leaf_grads = ::torch::autograd::grad({state.output}, state.leaves, {output_grad});
  for (at::Tensor& gradient : leaf_grads) gradient = gradient.detach();
  state.leaves.clear();
  state.output.reset();
  defer_embeddings(state.batch, leaf_grads, state.jobs);
  state.batch = {};
  if (!is_first_) put_single(leaf_grads.front(), input_grads, "gradient");
  if (whole) weight_grad(context);
}

void ChunkStage::weight_grad(const host::TaskContext& context) {
  check(context);
  Saved& state = saved(context, "no weight gradients are left for ");
  if (state.output.defined()) throw Error("weight gradients before the backward of " + in_slot(context));
  state.jobs.run();
  slot_of(context).reset();
  if (++accumulated_ == microbatches_ && gradients_final_) gradients_final_();
}

std::size_t ChunkStage::saved_microbatches() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(slots_, [](const auto& slot) { return slot != nullptr; }));
}

BatchKey ChunkStage::key(const host::TaskContext& context) const {
  return {config_.seed, progress_.step, in_step(context)};
}

/// The replicas share the microbatches of a step in their order.
Microbatch ChunkStage::in_step(const host::TaskContext& context) const {
  return static_cast<Microbatch>(progress_.replica * microbatches_ + context.microbatch);
}

void ChunkStage::check(const host::TaskContext& context) const {
  const bool forward_only = progress_.iteration.kind == IterationKind::ForwardOnly;
  if (context.iteration != progress_.iteration.index || context.forward_only != forward_only) {
    throw Error("a task of iteration " + std::to_string(context.iteration) + " ran in iteration " +
                std::to_string(progress_.iteration.index));
  }
}

Dropout ChunkStage::dropout(const host::TaskContext& context) const {
  if (context.forward_only) return {};
  return {config_.dropout, config_.seed, progress_.step, in_step(context)};
}

std::unique_ptr<ChunkStage::Saved>& ChunkStage::slot_of(const host::TaskContext& context) {
  if (context.slot >= slots_.size()) {
    throw Error("slot " + std::to_string(context.slot) + " of " + std::to_string(slots_.size()) +
                " prepared slots");
  }
  return slots_[context.slot];
}

ChunkStage::Saved& ChunkStage::saved(const host::TaskContext& context, const char* missing) {
  const std::unique_ptr<Saved>& slot = slot_of(context);
  if (!slot) throw Error(missing + in_slot(context));
  return *slot;
}

}  // namespace sluice::gpt
