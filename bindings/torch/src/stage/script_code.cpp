#include "script_code.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "script_module.hpp"
#include "slot_tensors.hpp"
#include "sluice/error.hpp"
#include "torch_cause.hpp"

namespace sluice::capture {
namespace {

namespace jit = torch::jit;

/// Those of a tensor, or of a tuple or list of tensors.
/// @throws Error if there is anything else
std::vector<at::Tensor> tensors_of(const c10::IValue& value) {
  std::vector<at::Tensor> tensors;
  const auto add = [&](const c10::IValue& part) {
    if (!part.isTensor()) throw Error("returns " + part.tagKind() + " where a stage returns tensors");
    tensors.push_back(part.toTensor());
  };
  if (value.isTuple()) {
    for (const c10::IValue& part : value.toTupleRef().elements()) add(part);
  } else if (value.isList()) {
    for (const c10::IValue& part : value.toListRef()) add(part);
  } else {
    add(value);
  }
  if (tensors.empty()) throw Error("returns nothing");
  return tensors;
}

bool trains(const at::Tensor& tensor) { return tensor.requires_grad(); }

/// Of the results that have one.
struct Roots {
  std::vector<at::Tensor> results;
  std::vector<at::Tensor> gradients;
};

class ScriptRun final : public ChunkRun, public std::enable_shared_from_this<ScriptRun> {
 public:
  ScriptRun(std::vector<at::Tensor> leaves, std::vector<at::Tensor> results,
            const std::vector<TrainedTensor>& trained)
      : leaves_(std::move(leaves)), results_(std::move(results)), trained_(trained) {}

  [[nodiscard]] const std::vector<at::Tensor>& results() const override { return results_; }
  [[nodiscard]] Differentiated backward(const std::vector<at::Tensor>& result_grads, bool whole) override;

 private:
  [[nodiscard]] Roots roots(const std::vector<at::Tensor>& result_grads) const;
  [[nodiscard]] std::vector<at::Tensor> gradients(const Roots& roots, bool of_leaves, bool of_trained) const;
  void accumulate(std::span<const at::Tensor> gradients) const;

  std::vector<at::Tensor> leaves_;
  std::vector<at::Tensor> results_;
  const std::vector<TrainedTensor>& trained_;
};

Roots ScriptRun::roots(const std::vector<at::Tensor>& result_grads) const {
  Roots roots;
  for (std::size_t i = 0; i < results_.size(); ++i) {
    if (!trains(results_[i])) continue;
    roots.results.push_back(results_[i]);
    roots.gradients.push_back(result_grads[i].defined() ? result_grads[i] : at::ones_like(results_[i]));
  }
  return roots;
}

/// Keeps the graph, which is walked again by the other passes and by the runs that warm up and verify.
std::vector<at::Tensor> ScriptRun::gradients(const Roots& roots, bool of_leaves, bool of_trained) const {
  std::vector<at::Tensor> wanted;
  if (of_leaves) std::ranges::copy_if(leaves_, std::back_inserter(wanted), trains);
  if (of_trained) {
    for (const TrainedTensor& tensor : trained_) wanted.push_back(tensor.value);
  }
  if (wanted.empty() || roots.results.empty()) return std::vector<at::Tensor>(wanted.size());
  return torch::autograd::grad(roots.results, wanted, roots.gradients, /*retain_graph=*/true,
                               /*create_graph=*/false, /*allow_unused=*/true);
}

void ScriptRun::accumulate(std::span<const at::Tensor> gradients) const {
  for (std::size_t i = 0; i < trained_.size(); ++i) {
    if (gradients[i].defined()) trained_[i].grad.add_(gradients[i]);
  }
}

Differentiated ScriptRun::backward(const std::vector<at::Tensor>& result_grads, bool whole) {
  const Roots from = roots(result_grads);
  const std::vector<at::Tensor> all = gradients(from, true, whole);
  Differentiated made;
  std::size_t next = 0;
  for (const at::Tensor& leaf : leaves_)
    made.input_grads.push_back(trains(leaf) ? all[next++] : at::Tensor());
  if (whole) {
    accumulate(std::span(all).subspan(next));
  } else {
    made.weight_grad = [self = shared_from_this(), from] {
      self->accumulate(self->gradients(from, false, true));
    };
  }
  return made;
}

}  // namespace

struct ScriptCode::Module {
  jit::Module module;
  /// Of its `forward`; tensors are put in at each call.
  std::vector<c10::IValue> arguments;
};

ScriptCode::ScriptCode(const std::string& path, const std::vector<Input>& inputs, c10::Device device)
    : path_(path), module_(std::make_unique<Module>()) {
  module_->module = load_module(path, [&](const std::string& file) { return jit::load(file, device); });
  check_inputs(module_->module, inputs);
  for (const Input& input : inputs) {
    switch (input.kind) {
      case Input::Kind::Tensor:
        module_->arguments.emplace_back(at::Tensor());
        break;
      case Input::Kind::Int:
        module_->arguments.emplace_back(input.whole);
        break;
      case Input::Kind::Float:
        module_->arguments.emplace_back(input.value);
        break;
      case Input::Kind::Bool:
        module_->arguments.emplace_back(input.whole != 0);
        break;
    }
  }
  find_trained();
  learn_results(inputs, device);
}

ScriptCode::~ScriptCode() = default;

void ScriptCode::find_trained() {
  std::unordered_set<const at::TensorImpl*> known;
  for (const auto& parameter : module_->module.named_parameters()) {
    // A tensor that two modules share is one.
    if (!trains(parameter.value) || !known.insert(parameter.value.unsafeGetTensorImpl()).second) continue;
    trained_.push_back({parameter.name, parameter.value,
                        at::zeros_like(parameter.value, {}, at::MemoryFormat::Contiguous).detach()});
  }
  for (const at::Tensor& buffer : module_->module.buffers()) {
    if (buffer.defined() && buffer.numel() > 0 && known.insert(buffer.unsafeGetTensorImpl()).second)
      buffers_.push_back(buffer);
  }
}

void ScriptCode::learn_results(const std::vector<Input>& inputs, c10::Device device) {
  std::vector<at::Tensor> zeros;
  for (const Input& input : inputs) {
    if (input.kind == Input::Kind::Tensor)
      zeros.push_back(at::zeros(input.shape, at::TensorOptions().dtype(type_of(input)).device(device)));
  }
  std::vector<at::Tensor> before;
  for (const at::Tensor& buffer : buffers_) before.push_back(buffer.detach().clone());
  try {
    const std::shared_ptr<ChunkRun> run = forward(zeros, nullptr, 0);
    const std::vector<at::Tensor>& results = run->results();
    if (std::ranges::none_of(results, trains))
      throw Error("no result depends on something that requires a gradient");
    if (results.size() > 1 || results.front().dim() > 0)
      std::ranges::transform(results, std::back_inserter(outputs_), shape_of);
    std::ranges::transform(zeros, std::back_inserter(inputs_), shape_of);
  } catch (const Error& error) {
    throw ConfigError("module", path_ + ": " + error.what());
  } catch (const std::exception& error) {
    throw ConfigError("module", path_ + " does not run: " + cause_of(error));
  }
  const at::NoGradGuard no_graph;
  for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].copy_(before[i]);
}

std::vector<at::Tensor> ScriptCode::call(const std::vector<at::Tensor>& inputs) {
  std::vector<c10::IValue> arguments = module_->arguments;
  auto next = inputs.begin();
  for (c10::IValue& argument : arguments) {
    if (!argument.isTensor()) continue;
    if (next == inputs.end()) throw Error("the input edge carries too few tensors for " + path_);
    argument = *next++;
  }
  if (next != inputs.end()) throw Error("the input edge carries too many tensors for " + path_);
  // Operators as they are written: torch's optimizer would first watch some calls, then fuse and fold.
  const jit::GraphOptimizerEnabledGuard as_written(false);
  return tensors_of(module_->module.forward(std::move(arguments)));
}

std::shared_ptr<ChunkRun> ScriptCode::forward(const std::vector<at::Tensor>& inputs, std::byte* /*data*/,
                                              std::uint64_t /*variant*/) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& input : inputs) {
    leaves.push_back(input.detach());
    if (input.is_floating_point()) leaves.back().set_requires_grad(true);
  }
  std::vector<at::Tensor> results = call(leaves);
  return std::make_shared<ScriptRun>(std::move(leaves), std::move(results), trained_);
}

}  // namespace sluice::capture
