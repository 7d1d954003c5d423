#include "capture_check_module.hpp"

#include <fmt/format.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "capture_check_code.hpp"
#include "capture_check_device.hpp"
#include "script_module.hpp"

namespace sluice::capture {
namespace {

namespace jit = torch::jit;

jit::Module load_from(const std::string& path) {
  try {
    return jit::load(path);
  } catch (const c10::Error&) {
    // What was saved on a GPU that is not here.
    return jit::load(path, kCheckedDevice);
  }
}

/// Adds a value, or the parts of it that are tensors and numbers.
void add_state(std::vector<Attribute>& state, Attribute attribute, const c10::IValue& value) {
  const std::string name = attribute.name;
  const auto add_part = [&](const std::string& part, const c10::IValue& of) {
    attribute.name = fmt::format("{}[{}]", name, part);
    add_state(state, attribute, of);
  };
  if (value.isTensor()) {
    attribute.tensor = value.toTensor();
    if (on_host(attribute.tensor)) attribute.contents = attribute.tensor.detach().clone();
  } else if (value.isList()) {
    std::size_t index = 0;
    for (const c10::IValue& each : value.toListRef()) add_part(std::to_string(index++), each);
    attribute.value = fmt::format("{} parts", index);
  } else if (value.isTuple()) {
    std::size_t index = 0;
    for (const c10::IValue& each : value.toTupleRef().elements()) add_part(std::to_string(index++), each);
  } else if (value.isGenericDict()) {
    for (const auto& each : value.toGenericDict())
      add_part(fmt::format("{}", (std::ostringstream() << each.key()).str()), each.value());
    attribute.value = fmt::format("{} parts", value.toGenericDict().size());
  } else if (value.isObject() || value.isCapsule()) {
    return;
  } else {
    attribute.value = (std::ostringstream() << value).str();
  }
  attribute.name = name;
  state.push_back(std::move(attribute));
}

struct Moved {
  at::Tensor from;
  at::Tensor to;
};

const Moved* find_moved(const std::vector<Moved>& moved, const at::Tensor& tensor) {
  const auto same = [&](const Moved& each) {
    return each.from.is_same(tensor) ||
           (on_host(tensor) && each.from.is_alias_of(tensor) && each.from.sizes() == tensor.sizes() &&
            each.from.strides() == tensor.strides() && each.from.storage_offset() == tensor.storage_offset());
  };
  const auto found = std::find_if(moved.begin(), moved.end(), same);
  return found == moved.end() ? nullptr : &*found;
}

/// A tensor that two modules share stays one.
at::Tensor move(std::vector<Moved>& moved, const at::Tensor& tensor) {
  if (const Moved* known = find_moved(moved, tensor)) return known->to;
  const at::Tensor to = tensor.detach().to(kCheckedDevice).set_requires_grad(tensor.requires_grad());
  return moved.emplace_back(Moved{tensor, to}).to;
}

void replace_moved(c10::impl::GenericList list, const std::vector<Moved>& moved) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    const c10::IValue value = list.get(i);
    const Moved* known = value.isTensor() ? find_moved(moved, value.toTensor()) : nullptr;
    if (known != nullptr) list.set(i, known->to);
  }
}

}  // namespace

struct CheckedModule::Loaded {
  explicit Loaded(const std::string& path) : module(load_module(path, load_from)), code(module) {}

  jit::Module module;
  ModuleCode code;
};

CheckedModule::CheckedModule(const std::string& path) : loaded_(std::make_unique<Loaded>(path)) {}

CheckedModule::~CheckedModule() = default;

void CheckedModule::check_inputs(const std::vector<Input>& inputs) const {
  capture::check_inputs(loaded_->module, inputs);
}

void CheckedModule::move_to_device() {
  ModuleCode::use_checked_device(loaded_->module);
  const torch::NoGradGuard no_grad;
  std::vector<Moved> moved;
  for (const jit::Module& module : loaded_->module.modules()) {
    const auto type = module.type();
    for (std::size_t i = 0; i < type->numAttributes(); ++i) {
      const c10::IValue value = module._ivalue()->getSlot(i);
      if ((type->is_parameter(i) || type->is_buffer(i)) && value.isTensor() && value.toTensor().defined())
        module._ivalue()->setSlot(i, move(moved, value.toTensor()));
    }
  }
  // Recurrent layers keep their parameters in a list too.
  for (const jit::Module& module : loaded_->module.modules())
    for (const c10::IValue& value : module._ivalue()->slots())
      if (value.isList()) replace_moved(value.toList(), moved);
}

c10::IValue CheckedModule::forward(std::vector<c10::IValue> arguments) {
  // Operators as they are written: torch's optimizer would fuse and fold some.
  const jit::GraphOptimizerEnabledGuard as_written(false);
  return loaded_->module.forward(std::move(arguments));
}

void CheckedModule::clear_gradients() {
  for (const at::Tensor& parameter : loaded_->module.parameters()) parameter.mutable_grad() = at::Tensor();
}

Place CheckedModule::current_place() const { return loaded_->code.current_place(); }

std::vector<Attribute> CheckedModule::state() const {
  std::vector<Attribute> state;
  for (const auto& [path, module] : loaded_->module.named_modules()) {
    const std::string class_name = module.type()->name()->qualifiedName();
    for (const auto& [name, value] : module.named_attributes(false)) {
      Attribute attribute;
      attribute.module = path;
      attribute.name = name;
      attribute.writer = loaded_->code.writer_of(class_name, name);
      add_state(state, std::move(attribute), value);
    }
  }
  return state;
}

}  // namespace sluice::capture
