#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sluice/host/payload.hpp"

namespace sluice::test {

/// A tensor of doubles of the given extents, which owns its elements.
[[nodiscard]] host::TensorPtr make_tensor(std::vector<std::int64_t> extents, std::vector<double> elements);

/// A one-dimensional tensor.
[[nodiscard]] host::TensorPtr make_vector(std::vector<double> elements);

/// The elements of a tensor made here.
[[nodiscard]] std::span<double> elements_of(const host::TensorPtr& tensor);

/// Tensors made here that have not been deleted.
[[nodiscard]] std::int64_t live_tensors() noexcept;

}  // namespace sluice::test
