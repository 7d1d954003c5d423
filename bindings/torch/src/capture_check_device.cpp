#include "capture_check_device.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/record_function.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::capture {
namespace {

/// The same memory, named as the other device's; `owner` keeps it.
c10::DataPtr relabel(void* data, c10::Storage owner, c10::Device device) {
  auto keeper = std::make_unique<c10::Storage>(std::move(owner));
  return {data, keeper.release(),
          [](void* held) { std::unique_ptr<c10::Storage>(static_cast<c10::Storage*>(held)); }, device};
}

class DeviceAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, c10::GetCPUAllocator(), false);
    return relabel(storage.mutable_data(), storage, kCheckedDevice);
  }
  void copy_data(void* destination, const void* source, std::size_t bytes) const override {
    default_copy_data(destination, source, bytes);
  }
};

DeviceAllocator& device_allocator() {
  static DeviceAllocator allocator;
  return allocator;
}

/// A tensor over a storage, as another one lies in its own.
at::Tensor tensor_over(c10::Storage storage, const at::Tensor& layout, c10::DispatchKey key) {
  at::Tensor tensor =
      at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), layout.dtype());
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(layout.sizes(), layout.strides(),
                                                      layout.storage_offset());
  if (layout.is_conj()) tensor._set_conj(true);
  if (layout.is_neg()) tensor._set_neg(true);
  return tensor;
}

/// A tensor of the host over a device tensor's memory.
at::Tensor host_alias(const at::Tensor& tensor) {
  const c10::Storage& own = tensor.storage();
  // Resizable, because a kernel may give an output another size.
  c10::Storage storage(c10::Storage::use_byte_size_t(), own.nbytes(),
                       relabel(own.mutable_data(), own, c10::kCPU), c10::GetCPUAllocator(), true);
  at::Tensor alias = tensor_over(std::move(storage), tensor, c10::DispatchKey::CPU);
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
    alias.unsafeGetTensorImpl()->set_wrapped_number(true);
  return alias;
}

/// One call of a host kernel on device tensors.
class HostCall {
 public:
  HostCall(const c10::OperatorHandle& op, torch::jit::Stack& stack) : op_(op), stack_(stack) {
    for (c10::IValue& argument : top(op.schema().arguments().size())) argument = to_host(argument);
  }

  void run() {
    {
      const at::AutoDispatchBelowAutograd below;
      // How the host's kernel does it says nothing of the device's.
      const at::RecordFunctionGuard unobserved(false);
      op_.callBoxed(stack_);
    }
    for (const auto& [device, host] : arguments_) take_resize(device, host);
    for (c10::IValue& result : top(op_.schema().returns().size())) result = to_device(result);
  }

 private:
  std::span<c10::IValue> top(std::size_t count) { return std::span(stack_).last(count); }

  at::Tensor to_host(const at::Tensor& tensor) {
    if (!on_device(tensor)) return tensor;
    for (const auto& [device, host] : arguments_)
      if (device.is_same(tensor)) return host;
    return arguments_.emplace_back(tensor, host_alias(tensor)).second;
  }

  c10::IValue to_host(const c10::IValue& value) {
    if (value.isTensor()) return to_host(value.toTensor());
    if (value.isDevice())
      return value.toDevice() == kCheckedDevice ? c10::Device(c10::kCPU) : value.toDevice();
    if (!value.isList() || value.isIntList()) return value;
    // Of the same type, because a list of optional tensors and one of tensors are not.
    c10::impl::GenericList list(value.toList().elementType());
    for (const c10::IValue& each : value.toListRef()) list.push_back(to_host(each));
    return list;
  }

  /// Carries what the kernel did to the size of an argument over to it.
  static void take_resize(const at::Tensor& device, const at::Tensor& host) {
    c10::StorageImpl* own = device.storage().unsafeGetStorageImpl();
    if (host.storage().data() != own->data()) {
      own->set_data_ptr_noswap(relabel(host.storage().mutable_data(), host.storage(), kCheckedDevice));
      own->set_nbytes(host.storage().nbytes());
    }
    if (device.sizes() != host.sizes() || device.strides() != host.strides() ||
        device.storage_offset() != host.storage_offset())
      device.unsafeGetTensorImpl()->set_sizes_and_strides(host.sizes(), host.strides(),
                                                          host.storage_offset());
  }

  at::Tensor to_device(const at::Tensor& tensor) {
    if (!on_host(tensor)) return tensor;
    for (const auto& [device, host] : arguments_) {
      if (host.is_same(tensor)) return device;
      // A view of an argument.
      if (host.storage().data() == tensor.storage().data() && tensor.storage().data() != nullptr)
        return tensor_over(device.storage(), tensor, c10::DispatchKey::PrivateUse1);
    }
    c10::Storage storage(c10::Storage::use_byte_size_t(), tensor.storage().nbytes(),
                         relabel(tensor.storage().mutable_data(), tensor.storage(), kCheckedDevice),
                         &device_allocator(), true);
    return tensor_over(std::move(storage), tensor, c10::DispatchKey::PrivateUse1);
  }

  c10::IValue to_device(const c10::IValue& value) {
    if (value.isTensor()) return to_device(value.toTensor());
    if (!value.isTensorList()) return value;
    c10::List<at::Tensor> list;
    for (const at::Tensor& each : value.toTensorVector()) list.push_back(to_device(each));
    return list;
  }

  const c10::OperatorHandle& op_;
  torch::jit::Stack& stack_;
  std::vector<std::pair<at::Tensor, at::Tensor>> arguments_;
};

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) { HostCall(op, *stack).run(); }

at::Tensor empty(at::IntArrayRef sizes, std::optional<c10::ScalarType> type, std::optional<c10::Layout>,
                 std::optional<c10::Device>, std::optional<bool>, std::optional<c10::MemoryFormat> format) {
  return at::Tensor(at::detail::empty_generic(sizes, &device_allocator(),
                                              c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                              c10::dtype_or_default(type), format));
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<c10::ScalarType> type,
                         std::optional<c10::Layout>, std::optional<c10::Device>, std::optional<bool>) {
  return at::Tensor(at::detail::empty_strided_generic(sizes, strides, &device_allocator(),
                                                      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                                      c10::dtype_or_default(type)));
}

at::Tensor alias_if_on_device(const at::Tensor& tensor) {
  return on_device(tensor) ? host_alias(tensor) : tensor;
}

at::Tensor copy_from(const at::Tensor& source, const at::Tensor& destination, bool /*non_blocking*/) {
  const at::AutoDispatchBelowAutograd below;
  const at::RecordFunctionGuard unobserved(false);
  alias_if_on_device(destination).copy_(alias_if_on_device(source));
  return destination;
}

at::Tensor copy_from_and_resize(const at::Tensor& source, const at::Tensor& destination) {
  destination.resize_(source.sizes());
  return copy_from(source, destination, false);
}

at::Tensor to_device(const at::Tensor& host) {
  if (!host.defined()) return host;
  at::Tensor result = at::Tensor(at::detail::empty_strided_generic(
      host.sizes(), host.strides(), &device_allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      host.scalar_type()));
  return copy_from(host, result, false);
}

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, at::IntArrayRef stride, at::IntArrayRef padding,
                       at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
                       std::int64_t groups) {
  const at::AutoDispatchBelowAutograd below;
  const at::RecordFunctionGuard unobserved(false);
  const auto host_bias = bias ? std::optional(alias_if_on_device(*bias)) : std::nullopt;
  return to_device(at::convolution(alias_if_on_device(input), alias_if_on_device(weight), host_bias, stride,
                                   padding, dilation, transposed, output_padding, groups));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& weight, at::IntArrayRef stride,
    at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
    std::int64_t groups, std::array<bool, 3> mask) {
  const at::AutoDispatchBelowAutograd below;
  const at::RecordFunctionGuard unobserved(false);
  const std::int64_t bias_size = gradient.size(1);
  auto [input_gradient, weight_gradient, bias_gradient] = at::convolution_backward(
      alias_if_on_device(gradient), alias_if_on_device(input), alias_if_on_device(weight),
      at::IntArrayRef(&bias_size, 1), stride, padding, dilation, transposed, output_padding, groups, mask);
  return {to_device(input_gradient), to_device(weight_gradient), to_device(bias_gradient)};
}

/// torch's own for a device without streams, but with a current device that has an index.
struct DeviceGuard final : c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::PrivateUse1> {
  c10::Device getDevice() const override { return kCheckedDevice; }
  c10::Device exchangeDevice(c10::Device) const override { return kCheckedDevice; }
  c10::Stream getStream(c10::Device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, kCheckedDevice);
  }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return getStream(kCheckedDevice); }
};

struct DeviceHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
};

struct Registration {
  Registration()
      : device(c10::DeviceType::PrivateUse1, &guard),
        fallback(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__),
        kernels(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__) {
    c10::register_privateuse1_backend("gpu");
    c10::SetAllocator(c10::DeviceType::PrivateUse1, &device_allocator());
    at::RegisterPrivateUse1HooksInterface(&hooks);
    fallback.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
    kernels.impl("empty.memory_format", &empty);
    kernels.impl("empty_strided", &empty_strided);
    kernels.impl("_copy_from", &copy_from);
    kernels.impl("_copy_from_and_resize", &copy_from_and_resize);
    kernels.impl("convolution_overrideable", &convolution);
    kernels.impl("convolution_backward_overrideable", &convolution_backward);
  }

  DeviceGuard guard;
  DeviceHooks hooks;
  c10::impl::DeviceGuardImplRegistrar device;
  torch::Library fallback;
  torch::Library kernels;
};

}  // namespace

void install_checked_device() {
  // Torch's own threads may use it until the process ends.
  static const Registration* const registration = std::make_unique<Registration>().release();
  static_cast<void>(registration);
}

}  // namespace sluice::capture
