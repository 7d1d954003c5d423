#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <vector>

#include "fake_cuda.hpp"

namespace fakecuda {

/// A kernel of the program, as nvcc's constructors register it before main.
struct DeviceFunction {
  const void* stub = nullptr;
  std::string mangled;
  std::string name;
};

/// What runs in its place.
struct StandIn {
  std::string name;
  std::vector<std::size_t> sizes;
  fakecuda_kernel_function function = nullptr;
  void* context = nullptr;
};

namespace kernels {

void add_function(DeviceFunction function);
/// Null if there is none.
[[nodiscard]] const DeviceFunction* find_function(const void* stub);
[[nodiscard]] const StandIn* find_stand_in(const DeviceFunction& function);

}  // namespace kernels

cudaError_t launch(const DeviceFunction& function, dim3 grid, dim3 block, void** arguments,
                   std::size_t shared_bytes, cudaStream_t stream);

}  // namespace fakecuda
