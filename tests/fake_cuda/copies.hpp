#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <optional>

#include "work.hpp"

namespace fakecuda {

/// One side of a copy.
struct Operand {
  std::optional<Location> location;  ///< none for pageable memory of the program
  char* bytes = nullptr;
  [[nodiscard]] bool on_device() const { return location && location->memory->on_device(); }
  [[nodiscard]] bool pageable() const { return !location; }
};

/// Looks an address up. What cannot be used is reported.
cudaError_t find_operand(const char* what, const void* address, std::size_t bytes, Operand& operand);

}  // namespace fakecuda
