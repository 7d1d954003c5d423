#pragma once

#include <cuda_runtime_api.h>

/// The arithmetic of single doubles, the same on the device and in the kernels' stand-ins. One operation
/// each, so that no compiler makes one rounding of two.
namespace sluice::test::kernels {

__host__ __device__ inline void set_scalar(double* out, double value) { *out = value; }
__host__ __device__ inline void multiply_scalars(double* out, const double* a, const double* b) {
  *out = *a * *b;
}
__host__ __device__ inline void add_scalar(double* sum, const double* x) { *sum += *x; }

}  // namespace sluice::test::kernels
