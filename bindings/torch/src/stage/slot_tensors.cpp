#include "slot_tensors.hpp"

#include <ATen/DLConvertor.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "sluice/error.hpp"

namespace sluice::capture {

TensorShape shape_of(const at::Tensor& tensor) {
  if (tensor.dim() > static_cast<std::int64_t>(TensorShape::kMaxRank)) {
    throw Error(fmt::format("a tensor has {} dimensions, messages have room for {}", tensor.dim(),
                            TensorShape::kMaxRank));
  }
  const DLDataType type = at::getDLDataType(tensor);
  TensorShape shape;
  shape.dtype_code = type.code;
  shape.dtype_bits = type.bits;
  shape.rank = static_cast<std::uint8_t>(tensor.dim());
  std::ranges::copy(tensor.sizes(), shape.extent);
  return shape;
}

at::Tensor view_of(const cuda::SlotTensor& tensor, c10::Device device) {
  const TensorShape& shape = tensor.shape;
  const c10::ScalarType type = at::toScalarType(DLDataType{shape.dtype_code, shape.dtype_bits, 1});
  // Named, so that torch does not ask the driver whose memory it is, which a capture forbids.
  return at::for_blob(tensor.data, at::IntArrayRef(shape.extent, shape.rank))
      .options(at::TensorOptions().dtype(type).device(device))
      .target_device(device)
      .make_tensor();
}

void store(const at::Tensor& tensor, cuda::SlotTensor& slot, c10::Device device, const std::string& what) {
  if (tensor.nbytes() > slot.capacity) {
    throw Error(
        fmt::format("{} has {} bytes, its place in the slot {}", what, tensor.nbytes(), slot.capacity));
  }
  slot.shape = shape_of(tensor);
  view_of(slot, device).copy_(tensor, /*non_blocking=*/true);
}

cuda::DeviceSpan span_of(const at::Tensor& tensor, const std::string& name) {
  if (!tensor.is_non_overlapping_and_dense())
    throw Error(name + " has gaps or overlaps in memory: make it contiguous");
  const DLDataType type = at::getDLDataType(tensor);
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes(), type.code, type.bits};
}

std::vector<cuda::SlotTensor*> all_of(std::vector<std::vector<cuda::SlotTensor>>& edges) {
  std::vector<cuda::SlotTensor*> all;
  for (auto& tensors : edges) {
    for (cuda::SlotTensor& tensor : tensors) all.push_back(&tensor);
  }
  return all;
}

std::vector<TensorShape> shapes_of(const std::vector<std::vector<cuda::SlotTensor>>& edges) {
  std::vector<TensorShape> shapes;
  for (const auto& tensors : edges) {
    for (const cuda::SlotTensor& tensor : tensors) shapes.push_back(tensor.shape);
  }
  return shapes;
}

}  // namespace sluice::capture
