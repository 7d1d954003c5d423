#pragma once

#include <ATen/core/Tensor.h>

#include "sluice/host/payload.hpp"

namespace sluice::gpt {

/// Hands a tensor to a message without copying its elements; the graph behind it stays behind.
/// A tensor that is not contiguous is made so first.
[[nodiscard]] host::TensorPtr to_message(const at::Tensor& tensor);

/// Takes a tensor out of a message without copying its elements.
[[nodiscard]] at::Tensor from_message(host::TensorPtr message);

/// Takes the only tensor of the only edge.
/// @param what names it in the error, as in `activation`
/// @throws Error if there is not exactly one edge with one tensor
[[nodiscard]] at::Tensor take_single(std::span<host::Payload> edges, const char* what);

/// Makes `tensor` the only tensor of the only edge.
/// @throws Error if there is not exactly one edge
void put_single(const at::Tensor& tensor, std::span<host::Payload> edges, const char* what);

}  // namespace sluice::gpt
