#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

namespace sluice::capture {

/// The device on which a stage is checked: torch's backend for others (`PrivateUse1`), whose memory is the
/// host's and whose kernels are torch's for the host. What differs from the host is all that a check is
/// about: tensors know that they are on a device, and meet those of the host only in copies.
inline const c10::Device kCheckedDevice{c10::DeviceType::PrivateUse1, 0};

/// Registers the device with torch; only the first call of a process does.
///
/// A backward made before in this process started torch's threads without one for this device.
/// @throws c10::Error if somebody else has registered kernels for `PrivateUse1`
void install_checked_device();

[[nodiscard]] inline bool on_device(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kCheckedDevice.type();
}

[[nodiscard]] inline bool on_host(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().is_cpu();
}

/// Calls `visit` for each defined tensor that an argument or a result holds, those in lists included.
template <typename Visit>
void for_each_tensor(const c10::IValue& value, Visit&& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isTensorList() || value.isOptionalTensorList() || value.isList()) {
    for (const c10::IValue& each : value.toListRef()) for_each_tensor(each, visit);
  } else if (value.isTuple()) {
    for (const c10::IValue& each : value.toTupleRef().elements()) for_each_tensor(each, visit);
  } else if (value.isGenericDict()) {
    for (const auto& each : value.toGenericDict()) for_each_tensor(each.value(), visit);
  }
}

}  // namespace sluice::capture
