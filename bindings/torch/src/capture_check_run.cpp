#include "capture_check_run.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <map>
#include <utility>

#include "capture_check_device.hpp"
#include "generator.hpp"
#include "script_module.hpp"

namespace sluice::capture {
namespace {

at::Tensor random_tensor(const Input& input, Variant variant, at::Generator& generator) {
  const c10::ScalarType type = type_of(input);
  if (c10::isFloatingType(type)) {
    const at::Tensor values = at::randn(input.shape, generator, at::kFloat);
    return (variant == Variant::One ? values : values.mul(-3)).to(type);
  }
  const std::int64_t bound = type == c10::kBool ? 2 : input.bound;
  const at::Tensor values = at::randint(bound, input.shape, generator, at::kLong);
  return (variant == Variant::One ? values : values.neg().add(bound - 1)).to(type);
}

c10::IValue argument_for(const Input& input, const RunSettings& settings, at::Generator& generator) {
  switch (input.kind) {
    case Input::Kind::Int:
      return input.whole;
    case Input::Kind::Float:
      return input.value;
    case Input::Kind::Bool:
      return input.whole != 0;
    case Input::Kind::Tensor:
      break;
  }
  const at::Tensor tensor = random_tensor(input, settings.variant, generator).to(settings.device);
  if (!settings.train || !tensor.is_floating_point()) return tensor;
  // What a stage receives is a leaf; a module may modify it in place only if it is none.
  return tensor.requires_grad_().clone();
}

bool same_on_host(const Attribute& before, const Attribute& after) {
  if (before.contents.defined() != after.contents.defined()) return false;
  if (!after.contents.defined()) return before.value == after.value;
  return before.contents.sizes() == after.contents.sizes() &&
         before.contents.dtype() == after.contents.dtype() && at::equal(before.contents, after.contents);
}

}  // namespace

CheckedRun::CheckedRun(CheckedModule& module, Observer* observer, const RunSettings& settings)
    : module_(module), observer_(observer), settings_(settings) {
  at::manual_seed(settings.seed);
  module_.clear_gradients();
  at::Generator generator = gpt::generator_of(settings.seed);
  for (const Input& input : settings.inputs) arguments_.push_back(argument_for(input, settings, generator));
  before_ = module_.state();
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& argument : arguments_)
    if (argument.isTensor()) tensors.push_back(argument.toTensor());
  if (observer_ != nullptr) observer_->begin(tensors);
}

void CheckedRun::forward() {
  const c10::AutoGradMode mode(settings_.train);
  results_ = module_.forward(arguments_);
}

void CheckedRun::judge() {
  observer_->pause(true);
  judge_results();
  judge_state();
  observer_->pause(false);
}

void CheckedRun::judge_results() {
  for_each_tensor(results_, [&](const at::Tensor& tensor) {
    const auto maker = observer_->maker_of(tensor);
    Finding finding{};
    finding.module = maker ? maker->place.module : "";
    finding.source = maker ? maker->place.source : "";
    finding.op = maker ? maker->op : "forward";
    finding.chain = {finding.op};
    if (observer_->is_input(tensor)) {
      finding.fault = Fault::InputReturned;
      finding.severity = Severity::Warning;
      finding.what = "a result is an input's memory: it changes when the input's slot is used again";
      finding.advice = "return a copy (clone), unless the result is read before the slot is released";
    } else if (on_host(tensor)) {
      finding.fault = Fault::HostTensor;
      finding.severity = Severity::SilentlyWrong;
      finding.what = "a result lies on the host: replays do not compute it again";
      finding.advice = "make it on the device, or leave it out of the stage";
    } else {
      return;
    }
    add_finding(observer_->findings(), std::move(finding));
  });
}

void CheckedRun::judge_state() {
  std::map<std::pair<std::string, std::string>, const Attribute*> before;
  for (const Attribute& each : before_) before.emplace(std::pair(each.module, each.name), &each);
  for (const Attribute& after : module_.state()) {
    const auto known = before.find({after.module, after.name});
    judge_attribute(known == before.end() ? nullptr : known->second, after);
  }
}

void CheckedRun::judge_attribute(const Attribute* before, const Attribute& after) {
  Finding finding{};
  finding.severity = Severity::SilentlyWrong;
  finding.module = after.module;
  finding.op = "prim::SetAttr";
  finding.source = after.writer;
  if (on_device(after.tensor)) {
    if (before != nullptr && before->tensor.defined() && before->tensor.is_alias_of(after.tensor)) return;
    const auto maker = observer_->maker_of(after.tensor);
    if (maker) finding.op = maker->op;
    if (maker && finding.source.empty()) finding.source = maker->place.source;
    const bool input = observer_->is_input(after.tensor);
    finding.fault = input ? Fault::InputKept : Fault::EscapingMemory;
    finding.what = fmt::format(
        "'{}' keeps {}", after.name,
        input ? "an input's memory after the call: another microbatch's when the slot is used again"
              : "memory of the call after it, which the next replay writes to");
    finding.advice = "return it as a result, or copy it into a buffer of the module (copy_)";
  } else {
    if (before != nullptr && same_on_host(*before, after)) return;
    finding.fault = Fault::HostState;
    finding.what = fmt::format("'{}' changes on the host: a replay does not change it", after.name);
    finding.advice = "keep it on the device (a buffer that is changed in place), or outside of the stage";
  }
  finding.chain = {finding.op};
  add_finding(observer_->findings(), std::move(finding));
}

std::vector<at::Tensor> CheckedRun::results_with_gradients() const {
  std::vector<at::Tensor> results;
  for_each_tensor(results_, [&](const at::Tensor& tensor) {
    if (tensor.requires_grad()) results.push_back(tensor);
  });
  return results;
}

std::string CheckedRun::why_no_backward() const {
  return results_with_gradients().empty() ? "no result depends on something that requires a gradient" : "";
}

void CheckedRun::backward() {
  const std::vector<at::Tensor> results = results_with_gradients();
  std::vector<at::Tensor> gradients;
  observer_->pause(true);
  for (const at::Tensor& result : results) gradients.push_back(at::ones_like(result));
  observer_->pause(false);
  torch::autograd::backward(results, gradients);
}

}  // namespace sluice::capture
