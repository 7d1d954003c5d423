#pragma once

#include <cuda_runtime_api.h>

#include "thread_sanitizer.hpp"

namespace fakecuda {

/// The error that made the device unusable; every call returns it from then on.
[[nodiscard]] cudaError_t device_error();
/// Leaves the device unusable if the code is of that kind.
void device_failed(cudaError_t code);

/// What a call answers before it is carried out: the device's error, a planned failure, or that host
/// functions may not call the runtime.
[[nodiscard]] cudaError_t admit(const char* function);
/// Keeps an error for cudaGetLastError.
cudaError_t remember(cudaError_t code);

/// While it exists, this thread runs a host function.
class InHostFunction {
 public:
  InHostFunction();
  ~InHostFunction();
  InHostFunction(const InHostFunction&) = delete;
  InHostFunction& operator=(const InHostFunction&) = delete;
};

/// One call of the runtime.
template <typename Body>
cudaError_t call(const char* function, Body body) {
  const Hidden hidden;
  const cudaError_t refused = admit(function);
  return remember(refused != cudaSuccess ? refused : body());
}

/// One that frees something, which it does on an unusable device too.
template <typename Body>
cudaError_t release_call(const char* function, Body body) {
  const Hidden hidden;
  const cudaError_t refused = admit(function);
  const cudaError_t result = body();
  return remember(refused != cudaSuccess ? refused : result);
}

}  // namespace fakecuda
