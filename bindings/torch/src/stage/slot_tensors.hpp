#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <string>
#include <vector>

#include "sluice/cuda/slot_memory.hpp"
#include "sluice/cuda/stage.hpp"
#include "sluice/transport.hpp"

namespace sluice::capture {

/// @throws Error if a tensor has more dimensions than a shape has room for
[[nodiscard]] TensorShape shape_of(const at::Tensor& tensor);

/// The slot's memory as a tensor of its shape of the moment; nothing is copied.
[[nodiscard]] at::Tensor view_of(const cuda::SlotTensor& tensor, c10::Device device);

/// Copies into the slot's memory, and gives that the tensor's shape.
/// @param what names it in the error
/// @throws Error if it has not the room
void store(const at::Tensor& tensor, cuda::SlotTensor& slot, c10::Device device, const std::string& what);

/// The memory of a dense tensor.
/// @throws Error if it has gaps or overlaps
[[nodiscard]] cuda::DeviceSpan span_of(const at::Tensor& tensor, const std::string& name);

/// All tensors of some edges, in order.
[[nodiscard]] std::vector<cuda::SlotTensor*> all_of(std::vector<std::vector<cuda::SlotTensor>>& edges);
[[nodiscard]] std::vector<TensorShape> shapes_of(const std::vector<std::vector<cuda::SlotTensor>>& edges);

}  // namespace sluice::capture
