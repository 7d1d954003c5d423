#pragma once

#include <dlpack/dlpack.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "sluice/host/payload.hpp"

namespace sluice::ucx {

/// A tensor of any type that owns its bytes, for payloads of all kinds.
struct TypedTensor {
  std::vector<std::int64_t> extents;
  std::vector<std::int64_t> strides;
  std::vector<std::byte> bytes;
  DLManagedTensor tensor{};
};

/// @param seed from which the bytes are made
inline host::TensorPtr typed_tensor(DLDataType type, std::vector<std::int64_t> extents, std::uint32_t seed) {
  auto owned = std::make_unique<TypedTensor>();
  owned->extents = std::move(extents);
  const auto elements =
      std::accumulate(owned->extents.begin(), owned->extents.end(), std::int64_t{1}, std::multiplies<>());
  owned->bytes.resize(static_cast<std::size_t>(elements) * ((type.bits + 7U) / 8U));
  for (std::byte& each : owned->bytes)
    each = static_cast<std::byte>((seed = seed * 1664525 + 1013904223) >> 24U);
  DLTensor& data = owned->tensor.dl_tensor;
  data.data = owned->bytes.data();
  data.device = {kDLCPU, 0};
  data.ndim = static_cast<int>(owned->extents.size());
  data.dtype = type;
  data.shape = owned->extents.data();
  owned->tensor.manager_ctx = owned.get();
  owned->tensor.deleter = [](DLManagedTensor* each) {
    const std::unique_ptr<TypedTensor> mine(static_cast<TypedTensor*>(each->manager_ctx));
  };
  return host::TensorPtr(&owned.release()->tensor);
}

/// All elements of a contiguous tensor as bytes.
inline std::vector<std::byte> bytes_of_tensor(const host::TensorPtr& tensor) {
  const auto* data = static_cast<const std::byte*>(tensor->dl_tensor.data) + tensor->dl_tensor.byte_offset;
  const std::size_t size = host::bytes_of(host::shape_of(*tensor));
  return size == 0 ? std::vector<std::byte>{} : std::vector<std::byte>(data, data + size);
}

}  // namespace sluice::ucx
