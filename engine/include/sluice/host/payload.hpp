#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sluice/transport.hpp"

struct DLManagedTensor;

namespace sluice::host {

struct DLManagedTensorDeleter {
  void operator()(DLManagedTensor* tensor) const noexcept;
};

/// One owned tensor, described by DLPack. Handing it over moves a pointer, never the elements.
using TensorPtr = std::unique_ptr<DLManagedTensor, DLManagedTensorDeleter>;

/// The tensors of one message: the activations or gradients of one edge for one microbatch.
using Payload = std::vector<TensorPtr>;

/// Element type and extents of a tensor.
/// @throws Error if it has more than TensorShape::kMaxRank dimensions
[[nodiscard]] TensorShape shape_of(const DLManagedTensor& tensor);

/// Bytes of all elements.
[[nodiscard]] std::uint64_t bytes_of(const TensorShape& shape) noexcept;

/// Stands for a gradient that is not there, because nothing depends on the input: `uint8[0]`.
[[nodiscard]] bool is_absent(const TensorShape& gradient) noexcept;

/// `float32[4, 64, 96]`.
[[nodiscard]] std::string to_string(const TensorShape& shape);

}  // namespace sluice::host
