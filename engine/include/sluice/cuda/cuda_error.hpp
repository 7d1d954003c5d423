#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "sluice/error.hpp"

namespace sluice::cuda {

/// What the CUDA runtime refused: `launching the graph of B0.1: cudaErrorLaunchFailure (...)`.
class CudaError : public Error {
 public:
  CudaError(cudaError_t code, const std::string& what);

  [[nodiscard]] cudaError_t code() const noexcept { return code_; }

 private:
  cudaError_t code_;
};

/// @param what was tried: completes "CUDA failed at ..."
/// @throws CudaError unless `code` is cudaSuccess
void check(cudaError_t code, const char* what);
void check(cudaError_t code, const std::string& what);

}  // namespace sluice::cuda
