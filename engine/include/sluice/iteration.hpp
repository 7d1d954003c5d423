#pragma once

#include <cstdint>

namespace sluice {

enum class IterationKind : std::uint8_t { Training, ForwardOnly };

/// One pass of all microbatches. Every rank runs the same iterations in the same order.
struct Iteration {
  std::uint64_t index = 0;
  IterationKind kind = IterationKind::Training;
};

}  // namespace sluice
