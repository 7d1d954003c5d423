#include "cuda/scalar_kernels.hpp"

#include "cuda/scalar.hpp"
#include "sluice/cuda/cuda_error.hpp"

namespace sluice::test {
namespace kernels {

__global__ void scalar_set(double* out, double value) { set_scalar(out, value); }
__global__ void scalar_multiply(double* out, const double* a, const double* b) {
  multiply_scalars(out, a, b);
}
__global__ void scalar_add(double* sum, const double* x) { add_scalar(sum, x); }

}  // namespace kernels

namespace {

cudaLaunchConfig_t one_thread(cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = 1;
  config.blockDim = 1;
  config.stream = stream;
  return config;
}

}  // namespace

void enqueue_set(double* out, double value, cudaStream_t stream) {
  const cudaLaunchConfig_t config = one_thread(stream);
  cuda::check(cudaLaunchKernelEx(&config, kernels::scalar_set, out, value), "launching scalar_set");
}

void enqueue_product(double* out, const double* a, const double* b, cudaStream_t stream) {
  const cudaLaunchConfig_t config = one_thread(stream);
  cuda::check(cudaLaunchKernelEx(&config, kernels::scalar_multiply, out, a, b), "launching scalar_multiply");
}

void enqueue_sum(double* sum, const double* x, cudaStream_t stream) {
  const cudaLaunchConfig_t config = one_thread(stream);
  cuda::check(cudaLaunchKernelEx(&config, kernels::scalar_add, sum, x), "launching scalar_add");
}

}  // namespace sluice::test
