#include "sluice/cuda/cuda_error.hpp"

#include <fmt/format.h>

namespace sluice::cuda {

CudaError::CudaError(cudaError_t code, const std::string& what)
    : Error(fmt::format("{}: {} ({})", what, cudaGetErrorName(code), cudaGetErrorString(code))),
      code_(code) {}

void check(cudaError_t code, const char* what) {
  if (code != cudaSuccess) throw CudaError(code, what);
}

void check(cudaError_t code, const std::string& what) {
  if (code != cudaSuccess) throw CudaError(code, what);
}

}  // namespace sluice::cuda
