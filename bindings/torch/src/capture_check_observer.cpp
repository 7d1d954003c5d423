#include "capture_check_observer.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "capture_check_device.hpp"

namespace sluice::capture {
namespace {

// As torch identifies what a thread hands to those that work for it.
constexpr std::string_view kObserverName = "sluice capture check";
constexpr c10::DebugInfoKind kObserverKind(&kObserverName);

struct ObserverInfo final : c10::DebugInfoBase {
  explicit ObserverInfo(std::shared_ptr<Observer> own) : observer(std::move(own)) {}
  std::shared_ptr<Observer> observer;
};

Observer* observer_of_thread() {
  auto* info = static_cast<ObserverInfo*>(c10::ThreadLocalDebugInfo::get(kObserverKind));
  return info != nullptr ? info->observer.get() : nullptr;
}

std::unique_ptr<at::ObserverContext> on_enter(const at::RecordFunction& function) {
  if (Observer* observer = observer_of_thread()) observer->enter(function);
  return nullptr;
}

void on_leave(const at::RecordFunction& function, at::ObserverContext* /*context*/) {
  if (Observer* observer = observer_of_thread()) observer->leave(function);
}

StorageId storage_of(const at::Tensor& tensor) {
  return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

std::vector<std::vector<std::int64_t>> shapes_of(const std::vector<c10::IValue>& values) {
  std::vector<std::vector<std::int64_t>> shapes;
  for (const c10::IValue& value : values)
    for_each_tensor(value, [&](const at::Tensor& tensor) { shapes.push_back(tensor.sizes().vec()); });
  return shapes;
}

/// TorchScript's interpreter shows its whole stack; on top is what the operator takes or returns.
std::vector<c10::IValue> top(std::span<const c10::IValue> stack, std::size_t count) {
  const std::span<const c10::IValue> values = stack.last(std::min(count, stack.size()));
  return {values.begin(), values.end()};
}

/// What every way to copy between two devices comes down to; only there both ends are known.
bool is_copy(const std::string& name) { return name.starts_with("aten::_copy_from"); }

/// The engine's own marks and the one copy of this device have no names that a user knows.
void add_to_chain(std::vector<std::string>& chain, const std::string& name) {
  const bool known = std::find(chain.begin(), chain.end(), name) != chain.end();
  if (!known && !is_copy(name) && !name.starts_with("autograd::")) chain.push_back(name);
}

}  // namespace

void add_finding(std::vector<Finding>& findings, Finding finding) {
  const auto same = [&](const Finding& other) {
    return other.fault == finding.fault && other.backward == finding.backward &&
           other.module == finding.module && other.op == finding.op && other.source == finding.source;
  };
  if (std::none_of(findings.begin(), findings.end(), same)) findings.push_back(std::move(finding));
}

/// An operator about to run, with what its schema says of it.
struct Observer::Judged {
  Judged(const at::RecordFunction& function, const c10::OperatorHandle& handle, Frame& own,
         const std::vector<Frame>& outer)
      : op(handle),
        arguments(top(function.inputs(), handle.schema().arguments().size())),
        frame(own),
        around(outer) {
    for (const c10::IValue& argument : arguments)
      for_each_tensor(argument, [&](const at::Tensor& tensor) {
        if (on_device(tensor)) device.push_back(tensor);
        if (on_host(tensor)) host.push_back(tensor);
      });
  }

  /// Calls no other operators that do the work: a device has a kernel of its own for it.
  [[nodiscard]] bool is_kernel() const {
    return !op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
           !op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd);
  }

  /// @return the value of the argument of that name, if the operator has it
  [[nodiscard]] const c10::IValue* argument(std::string_view name) const {
    for (std::size_t i = 0; i < arguments.size(); ++i)
      if (op.schema().arguments()[i].name() == name) return &arguments[i];
    return nullptr;
  }

  /// Lists of optional tensors are indices.
  [[nodiscard]] static bool is_indices(const c10::Argument& declared) {
    const auto list = declared.type()->cast<c10::ListType>();
    const auto element = list ? list->getElementType()->cast<c10::OptionalType>() : nullptr;
    return element && element->getElementType()->kind() == c10::TypeKind::TensorType;
  }

  [[nodiscard]] bool has_indices() const {
    const auto& declared = op.schema().arguments();
    return std::any_of(declared.begin(), declared.end(), is_indices);
  }

  [[nodiscard]] bool has_mask_among_indices() const {
    bool mask = false;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (!is_indices(op.schema().arguments()[i])) continue;
      for_each_tensor(arguments[i], [&](const at::Tensor& index) {
        mask |= index.scalar_type() == c10::kBool || index.scalar_type() == c10::kByte;
      });
    }
    return mask;
  }

  const c10::OperatorHandle& op;
  std::vector<c10::IValue> arguments;
  Frame& frame;
  const std::vector<Frame>& around;
  std::vector<at::Tensor> device;
  std::vector<at::Tensor> host;
};

void Observer::begin(const std::vector<at::Tensor>& inputs) {
  calls_.clear();
  makers_.clear();
  forward_places_.clear();
  inputs_.clear();
  frames_.clear();
  for (const at::Tensor& input : inputs) inputs_.insert(storage_of(input));
}

bool Observer::is_input(const at::Tensor& tensor) const { return inputs_.contains(storage_of(tensor)); }

std::optional<Called> Observer::maker_of(const at::Tensor& tensor) const {
  const auto found = makers_.find(storage_of(tensor));
  return found == makers_.end() ? std::nullopt : std::optional(found->second.call);
}

void Observer::enter(const at::RecordFunction& function) {
  const std::lock_guard lock(mutex_);
  if (paused_) return;
  std::vector<Frame>& around = frames();
  const bool node = !function.operator_name();
  // Only complete frames may be seen from within.
  Frame frame = node ? enter_node(function, around) : enter_operator(function, around);
  around.push_back(std::move(frame));
}

Observer::Frame Observer::enter_node(const at::RecordFunction& function, const std::vector<Frame>& around) {
  Frame frame = around.empty() ? Frame{} : around.back();
  frame.name = function.name();
  frame.node = true;
  // Others mark what is around operators of the forward.
  frame.backward |= function.scope() == at::RecordScope::BACKWARD_FUNCTION;
  const auto forward = forward_places_.find(function.seqNr());
  if (forward != forward_places_.end()) frame.place = forward->second;
  return frame;
}

Observer::Frame Observer::enter_operator(const at::RecordFunction& function,
                                         const std::vector<Frame>& around) {
  Frame frame;
  frame.name = function.name();
  if (around.empty()) {
    frame.place = place_();
  } else {
    frame.place = around.back().place;
    frame.backward = around.back().backward;
    frame.found = around.back().found;
  }
  if (!frame.backward && function.seqNr() >= 0) forward_places_.emplace(function.seqNr(), frame.place);
  last_place_ = frame.place;
  const auto name = function.operator_name();
  const auto op = name ? c10::Dispatcher::singleton().findOp(*name) : std::nullopt;
  if (op) judge(Judged(function, *op, frame, around));
  return frame;
}

void Observer::leave(const at::RecordFunction& function) {
  const std::lock_guard lock(mutex_);
  std::vector<Frame>& around = frames();
  if (paused_ || around.empty()) return;
  const Frame frame = std::move(around.back());
  around.pop_back();
  if (frame.node) return;
  const bool outermost = around.empty() || around.back().node;
  Called call{frame.name, frame.place, frame.backward, {}};
  const auto schema = function.operator_schema();
  const std::vector<c10::IValue> results = top(function.outputs(), schema ? schema->returns().size() : 0);
  for (const c10::IValue& value : results) {
    for_each_tensor(value, [&](const at::Tensor& tensor) {
      if (!tensor.has_storage()) return;
      const Maker made{tensor.storage().getWeakStorageImpl(), call, outermost};
      auto [maker, inserted] = makers_.try_emplace(storage_of(tensor), made);
      // The outer one is what the code calls it.
      if (!inserted && outermost && !maker->second.outermost) maker->second = made;
    });
  }
  if (!outermost) return;
  call.shapes = shapes_of(results);
  calls_.push_back(std::move(call));
}

void Observer::judge(const Judged& judged) {
  if (is_copy(judged.frame.name)) return judge_copy(judged);
  judge_values(judged);
  judge_host_tensors(judged);
  judge_random(judged);
  judge_writes(judged);
}

void Observer::judge_copy(const Judged& judged) {
  const bool to_host = on_device(judged.arguments[0].toTensor()) && on_host(judged.arguments[1].toTensor());
  const bool to_device = on_host(judged.arguments[0].toTensor()) && on_device(judged.arguments[1].toTensor());
  if (!to_host && !to_device) return;
  const auto maker = maker_of(judged.arguments[to_host ? 1 : 0].toTensor());
  if (maker && maker->op == "aten::pin_memory") {
    find(judged, Fault::HostSync, Severity::SilentlyWrong,
         "copies between the device and pinned memory of the host: each replay uses that memory again, freed "
         "or not",
         "keep the tensor on the device, or copy outside of the stage");
    return;
  }
  find(
      judged, Fault::HostSync, Severity::StopsCapture,
      to_host ? "copies a device tensor to the host and waits for it"
              : "copies a host tensor to the device and waits for it",
      to_host
          ? "keep the tensor on the device, or return it and read it after the stage"
          : "make the tensor once, as a buffer of the module, or on the device by an operator that fills it");
}

void Observer::judge_values(const Judged& judged) {
  if (judged.device.empty()) return;
  const auto& returns = judged.op.schema().returns();
  const bool returns_number = std::any_of(returns.begin(), returns.end(), [](const c10::Argument& each) {
    return each.type()->kind() == c10::TypeKind::NumberType;
  });
  if (judged.op.hasTag(at::Tag::data_dependent_output) || returns_number) {
    find(judged, Fault::HostSync, Severity::StopsCapture, "the host waits for a value of a device tensor",
         "compute with the tensor itself (torch.where for a choice), or pass the number in as an argument");
  }
  const bool mask = judged.has_mask_among_indices();
  const c10::IValue* output_size = judged.argument("output_size");
  const bool size_given = output_size != nullptr && !output_size->isNone();
  // What is made of others is dynamic if one of them is.
  const bool dynamic = judged.op.hasTag(at::Tag::dynamic_output_shape) && !size_given &&
                       !judged.op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  if (mask || (dynamic && !judged.has_indices())) {
    find(judged, Fault::DynamicShape, Severity::StopsCapture,
         mask ? "indexes with a mask: the host waits for the number of selected elements"
              : "the host waits for the size of the result, which depends on values",
         mask ? "use torch.where or masked_fill, which keep the shape"
              : "use an operator with a fixed output size, or keep all elements and mask them");
  }
}

void Observer::judge_host_tensors(const Judged& judged) {
  if (judged.device.empty() || judged.host.empty() || !judged.is_kernel()) return;
  for (const at::Tensor& tensor : judged.host) {
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) continue;
    if (tensor.dim() > 0) {
      return find(judged, Fault::HostTensor, Severity::StopsCapture,
                  "takes a tensor that lies on the host beside device tensors",
                  "register it as a buffer, or make it with device=x.device");
    }
    if (!judged.frame.backward && is_constant_of_code(tensor)) {
      find(judged, Fault::HostTensor, Severity::Warning,
           "takes a number from a host tensor: its value at the capture is what every replay computes with",
           "pass it as a Python number if it never changes, keep it on the device if it does");
    }
  }
}

/// Numbers that torch itself wraps on the way are not meant.
bool Observer::is_constant_of_code(const at::Tensor& tensor) const {
  const auto found = makers_.find(storage_of(tensor));
  return found == makers_.end() || found->second.outermost;
}

void Observer::judge_random(const Judged& judged) {
  if (!judged.op.hasTag(at::Tag::nondeterministic_seeded) || !judged.is_kernel()) return;
  const c10::IValue* device = judged.argument("device");
  const bool made_on_device = device != nullptr && device->isDevice() && device->toDevice() == kCheckedDevice;
  if (judged.device.empty() && !made_on_device) {
    find(judged, Fault::HostRandom, Severity::SilentlyWrong,
         "draws random numbers on the host: every replay computes with those of the capture",
         "draw them on the device (device=x.device), or pass them in as an argument");
    return;
  }
  find(judged, Fault::DeviceRandom, Severity::Note,
       "draws random numbers from the device's generator: a capture takes seed and offset from device memory",
       "allowed; torch's CUDAGraph.replay writes them before each replay, whoever launches the graph "
       "otherwise must");
}

void Observer::judge_writes(const Judged& judged) {
  const auto& declared = judged.op.schema().arguments();
  for (std::size_t i = 0; i < judged.arguments.size(); ++i) {
    const c10::AliasInfo* alias = declared[i].alias_info();
    if (alias == nullptr || !alias->isWrite()) continue;
    for_each_tensor(judged.arguments[i], [&](const at::Tensor& tensor) {
      if (!is_input(tensor)) return;
      find(judged, Fault::InputModified, Severity::SilentlyWrong,
           "modifies an input in place: the slot's input is no longer what arrived when it is used again",
           "use the operator that returns a new tensor");
    });
  }
}

void Observer::find(const Judged& judged, Fault fault, Severity severity, std::string what,
                    std::string advice) {
  Frame& frame = judged.frame;
  // What a shape needs from the device is part of that fault.
  for (const Fault known : {fault, Fault::DynamicShape}) {
    const auto found = frame.found.find(known);
    if (found == frame.found.end()) continue;
    if (fault == Fault::HostSync || fault == Fault::DynamicShape)
      add_to_chain(findings_[found->second].chain, frame.name);
    return;
  }
  Finding finding{fault, severity,           frame.backward,  frame.place.module, {},
                  {},    frame.place.source, std::move(what), std::move(advice)};
  for (const Frame& each : judged.around) add_to_chain(finding.chain, each.name);
  add_to_chain(finding.chain, frame.name);
  const auto first =
      std::find_if(judged.around.begin(), judged.around.end(), [](const Frame& each) { return !each.node; });
  finding.op = first == judged.around.end() ? frame.name : first->name;
  const auto same = [&](const Finding& other) {
    return other.fault == fault && other.backward == finding.backward && other.module == finding.module &&
           other.op == finding.op && other.source == finding.source;
  };
  const auto known = std::find_if(findings_.begin(), findings_.end(), same);
  frame.found[fault] = static_cast<std::size_t>(known - findings_.begin());
  if (known == findings_.end()) findings_.push_back(std::move(finding));
}

struct Observation::State {
  explicit State(std::shared_ptr<Observer> observer)
      : info(kObserverKind, std::make_shared<ObserverInfo>(std::move(observer))),
        callback(at::addThreadLocalCallback(
            at::RecordFunctionCallback(&on_enter, &on_leave)
                .needsInputs(true)
                .needsOutputs(true)
                .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}))) {}
  ~State() { at::removeCallback(callback); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  c10::DebugInfoGuard info;
  at::CallbackHandle callback;
};

Observation::Observation(std::shared_ptr<Observer> observer)
    : state_(std::make_unique<State>(std::move(observer))) {}

Observation::~Observation() = default;

}  // namespace sluice::capture
