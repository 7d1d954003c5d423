#pragma once

#include <cstdint>
#include <memory>

#include "allocation.hpp"

namespace fakecuda::graph_memory {

/// Memory that a graph's node will allocate; its address is known from now on. Freed with its last holder.
[[nodiscard]] std::shared_ptr<Allocation> plan(std::size_t bytes, int device);
/// Backed by memory of the device from now on, if it was not.
void reserve(const Allocation& memory);
/// What the nodes do.
void begin(Allocation& memory);
void end(Allocation& memory);

struct Usage {
  std::uint64_t used = 0;
  std::uint64_t used_high = 0;
  std::uint64_t reserved = 0;
  std::uint64_t reserved_high = 0;
};
[[nodiscard]] Usage usage(int device);
void reset_high_marks(int device);
/// Gives back what is reserved and not used.
void trim(int device);

}  // namespace fakecuda::graph_memory
