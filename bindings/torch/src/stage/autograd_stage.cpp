#include "autograd_stage.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "slot_tensors.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/error.hpp"
#include "torch_cause.hpp"

namespace sluice::capture {
namespace {

constexpr const char* kOutOfMemory = "CUDA out of memory";

/// What selects a graph of the slot's forward, as in graphs/: the shapes of its inputs or, without any, of
/// its outputs. Asked at every launch, so that nothing is allocated.
bool selected(const std::vector<TensorShape>& shapes, const cuda::SlotBuffers& slot) {
  std::size_t next = 0;
  for (const auto& tensors : slot.inputs.empty() ? slot.outputs : slot.inputs) {
    for (const cuda::SlotTensor& tensor : tensors) {
      if (next == shapes.size() || tensor.shape != shapes[next++]) return false;
    }
  }
  return next == shapes.size();
}

std::vector<at::Tensor> views_of(std::vector<std::vector<cuda::SlotTensor>>& edges, c10::Device device) {
  std::vector<at::Tensor> views;
  for (const cuda::SlotTensor* const tensor : all_of(edges)) views.push_back(view_of(*tensor, device));
  return views;
}

}  // namespace

AutogradStage::AutogradStage(std::unique_ptr<TorchDevice> device, std::unique_ptr<ChunkCode> code)
    : device_(std::move(device)), code_(std::move(code)) {
  device_->reserve(code_->data_bytes());
  for (const TrainedTensor& tensor : code_->trained())
    state_.push_back(span_of(tensor.grad, "the gradient of " + tensor.name));
  for (const at::Tensor& buffer : code_->buffers()) state_.push_back(span_of(buffer, "a buffer"));
}

AutogradStage::~AutogradStage() = default;

cuda::ChunkMemory AutogradStage::memory() const { return {sizeof(Words) + code_->data_bytes(), 0}; }

AutogradStage::Words* AutogradStage::words_of(const cuda::SlotBuffers& slot) {
  return reinterpret_cast<Words*>(slot.saved);
}

void AutogradStage::prepare_task(const host::TaskContext& context, Pass pass,
                                 const cuda::TaskBuffers& buffers, cudaStream_t stream) {
  SlotState& slot = state_of(buffers);
  if (pass == Pass::Backward) slot.backward = Made::ByGraph;
  if (pass != Pass::Forward) return;
  slot.forward = Made::ByGraph;
  slot.forward_only = context.forward_only;
  // Nothing of the slot's last microbatch is on the device any more.
  slot.by_calls = {};
  slot.left_by_calls = nullptr;
  slot.random = device_->write(context, &words_of(buffers.slot)->random, stream);
  const std::size_t most = code_->data_bytes();
  const std::span<std::byte> data =
      most > 0 ? device_->staging(context.slot).first(most) : std::span<std::byte>();
  const MicrobatchData filled = code_->fill(context, data);
  if (filled.bytes > 0) device_->copy(buffers.slot.saved + sizeof(Words), data.first(filled.bytes), stream);
  slot.variant = filled.variant;
  if (filled.outputs.empty()) return;
  const std::vector<cuda::SlotTensor*> outputs = all_of(buffers.slot.outputs);
  for (std::size_t i = 0; i < std::min(outputs.size(), filled.outputs.size()); ++i)
    outputs[i]->shape = filled.outputs[i];
}

cuda::Replay AutogradStage::replay(Pass pass, bool whole, const cuda::TaskBuffers& buffers) const {
  const auto slot = slots_.find(buffers.slot.saved);
  if (slot == slots_.end()) return cuda::Replay::Again;
  const SlotState& state = slot->second;
  if (pass != Pass::Forward && state.forward == Made::ByCalls) return cuda::Replay::ByCalls;
  if (pass == Pass::WeightGrad && state.backward == Made::ByCalls) return cuda::Replay::ByCalls;
  const auto kept = std::ranges::find_if(
      state.by_graph, [&](const Kept& each) { return selected(each.shapes, buffers.slot); });
  if (kept == state.by_graph.end() || kept->variant != state.variant) return cuda::Replay::Again;
  const bool held = pass == Pass::Forward      ? true
                    : pass == Pass::WeightGrad ? kept->captured_weight_grad
                    : whole                    ? kept->captured_whole
                                               : kept->captured_split;
  return held ? cuda::Replay::Held : cuda::Replay::Again;
}

void AutogradStage::forward(const cuda::TaskBuffers& buffers, cudaStream_t stream) {
  SlotState& slot = state_of(buffers);
  const bool captures = device_->captures(stream);
  const auto drop_captured = [&] {
    std::erase_if(slot.by_graph, [&](const Kept& kept) { return selected(kept.shapes, buffers.slot); });
  };
  if (captures) {
    begin_captures_on(stream);
    drop_captured();
  }
  Kept made;
  made.home = stream;
  made.variant = slot.variant;
  work(made, made.used, buffers, slot, stream, [&] {
    const at::AutoGradMode graph(captures || !slot.forward_only);
    made.run = code_->forward(views_of(buffers.slot.inputs, device_->device()),
                              buffers.slot.saved + sizeof(Words), slot.variant);
    store_results(buffers.slot, made.run->results());
  });
  if (captures) drop_captured();
  made.shapes = shapes_of(buffers.slot.inputs.empty() ? buffers.slot.outputs : buffers.slot.inputs);
  slot.forward = captures ? Made::ByGraph : Made::ByCalls;
  if (captures) {
    slot.by_graph.push_back(std::move(made));
  } else {
    slot.by_calls = std::move(made);
  }
}

void AutogradStage::backward(const cuda::TaskBuffers& buffers, bool whole, cudaStream_t stream) {
  SlotState& slot = state_of(buffers);
  const bool captures = device_->captures(stream);
  Kept& run = kept(slot, buffers.slot);
  if (captures && slot.forward == Made::ByCalls)
    throw Error("the forward of this microbatch ran call by call, so that its backward cannot be captured");
  std::uint64_t used = run.used;
  Differentiated made;
  work(run, used, buffers, slot, stream, [&] {
    const at::NoGradGuard no_graph;
    const std::vector<at::Tensor> gradients = code_->ends_in_loss()
                                                  ? std::vector<at::Tensor>(1)
                                                  : views_of(buffers.slot.output_grads, device_->device());
    made = run.run->backward(gradients, whole);
    store_input_grads(buffers.slot, made.input_grads);
  });
  slot.backward = captures ? Made::ByGraph : Made::ByCalls;
  if (!captures) {
    slot.left_by_calls = std::move(made.weight_grad);
  } else if (whole) {
    run.captured_whole = true;
  } else {
    run.captured_split = true;
    run.captured_weight_grad = false;
    run.left = std::move(made.weight_grad);
  }
}

void AutogradStage::weight_grad(const cuda::TaskBuffers& buffers, cudaStream_t stream) {
  SlotState& slot = state_of(buffers);
  const bool captures = device_->captures(stream);
  Kept& run = kept(slot, buffers.slot);
  if (captures && slot.backward == Made::ByCalls) {
    throw Error(
        "the backward of this microbatch ran call by call, so that its weight gradients cannot be "
        "captured");
  }
  const std::function<void()>& left = slot.backward == Made::ByCalls ? slot.left_by_calls : run.left;
  if (!left) throw Error("no backward left weight gradients to be accumulated");
  std::uint64_t used = run.used;
  work(run, used, buffers, slot, stream, [&] {
    const at::NoGradGuard no_graph;
    left();
  });
  if (captures) run.captured_weight_grad = true;
}

AutogradStage::Kept& AutogradStage::kept(SlotState& slot, const cuda::SlotBuffers& buffers) {
  if (slot.forward == Made::ByCalls) return slot.by_calls;
  const auto found =
      std::ranges::find_if(slot.by_graph, [&](const Kept& each) { return selected(each.shapes, buffers); });
  if (found == slot.by_graph.end()) throw Error("no forward of these shapes ran in the slot");
  return *found;
}

void AutogradStage::work(const Kept& kept, std::uint64_t& used, const cuda::TaskBuffers& buffers,
                         const SlotState& slot, cudaStream_t stream, const std::function<void()>& code) {
  try {
    // Torch knows the stream that memory was allocated for, and no other that reads it.
    if (kept.home != stream) device_->follow(kept.home, stream);
    {
      const auto set_up =
          device_->begin(kept.home, buffers.slot.saved, {slot.random, &words_of(buffers.slot)->random, used});
      code();
      used = set_up->used();
    }
    if (kept.home != stream) device_->follow(stream, kept.home);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string cause = cause_of(error);
    // TorchScript rethrows all that its operators throw as one type.
    if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr || cause.starts_with(kOutOfMemory))
      throw cuda::CudaError(cudaErrorMemoryAllocation, "allocating with torch (" + cause + ")");
    throw Error(cause);
  }
}

void AutogradStage::store_results(cuda::SlotBuffers& buffers, const std::vector<at::Tensor>& results) {
  const at::NoGradGuard no_graph;
  if (code_->ends_in_loss()) {
    at::for_blob(words_of(buffers)->loss, {})
        .options(at::TensorOptions().dtype(at::kDouble).device(device_->device()))
        .target_device(device_->device())
        .make_tensor()
        .copy_(results.front(), /*non_blocking=*/true);
    return;
  }
  const std::vector<cuda::SlotTensor*> outputs = all_of(buffers.outputs);
  if (outputs.size() != results.size()) {
    throw Error(fmt::format("the chunk returns {} tensors, its output edges carry {}", results.size(),
                            outputs.size()));
  }
  for (std::size_t i = 0; i < results.size(); ++i)
    store(results[i], *outputs[i], device_->device(), fmt::format("result {}", i));
}

void AutogradStage::store_input_grads(cuda::SlotBuffers& buffers, const std::vector<at::Tensor>& gradients) {
  const std::vector<cuda::SlotTensor*> inputs = all_of(buffers.inputs);
  const std::vector<cuda::SlotTensor*> places = all_of(buffers.input_grads);
  if (places.size() != gradients.size()) {
    throw Error(fmt::format("the chunk has gradients of {} inputs, its input edges carry {}",
                            gradients.size(), places.size()));
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (gradients[i].defined()) {
      store(gradients[i], *places[i], device_->device(), fmt::format("the gradient of input {}", i));
    } else {
      places[i]->shape = inputs[i]->shape;
      view_of(*places[i], device_->device()).zero_();
    }
  }
}

void AutogradStage::begin_captures_on(cudaStream_t stream) {
  if (captured_on_ == stream) return;
  // An earlier cache's, and autograd would go on with its stream.
  for (auto& [saved, slot] : slots_) slot.by_graph.clear();
  captured_on_ = stream;
}

void AutogradStage::zero_gradients(cudaStream_t stream) {
  const auto set_up = device_->begin(stream, nullptr, {});
  const at::NoGradGuard no_graph;
  for (const TrainedTensor& tensor : code_->trained()) tensor.grad.zero_();
}

double AutogradStage::loss(const cuda::SlotBuffers& slot, cudaStream_t stream) const {
  if (!code_->ends_in_loss()) throw Error("the chunk has no loss");
  double loss = 0;
  device_->read(std::as_writable_bytes(std::span(&loss, 1)), words_of(slot)->loss, stream);
  return loss;
}

}  // namespace sluice::capture
