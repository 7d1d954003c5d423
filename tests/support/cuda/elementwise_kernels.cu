#include "cuda/elementwise_kernels.hpp"

#include "cuda/elementwise.hpp"
#include "sluice/cuda/cuda_error.hpp"

namespace sluice::test {
namespace kernels {

__device__ int element() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }

__global__ void scale_add(float* out, const float* a, float factor, const float* b, int n) {
  if (const int i = element(); i < n) scale_add_element(out, a, factor, b, i);
}

__global__ void multiply(float* out, const float* a, const float* b, int n) {
  if (const int i = element(); i < n) multiply_element(out, a, b, i);
}

__global__ void accumulate(float* sum, const float* a, const float* b, int n) {
  if (const int i = element(); i < n) accumulate_element(sum, a, b, i);
}

__global__ void drop(float* out, const float* a, const std::uint64_t* words, int n) {
  if (const int i = element(); i < n) drop_element(out, a, words, i);
}

}  // namespace kernels

namespace {

cudaLaunchConfig_t over(int n, cudaStream_t stream) {
  constexpr unsigned kThreads = 128;
  cudaLaunchConfig_t config{};
  config.gridDim = (static_cast<unsigned>(n) + kThreads - 1) / kThreads;
  config.blockDim = kThreads;
  config.stream = stream;
  return config;
}

}  // namespace

void enqueue_scale_add(float* out, const float* a, float factor, const float* b, int n, cudaStream_t stream) {
  const cudaLaunchConfig_t config = over(n, stream);
  cuda::check(cudaLaunchKernelEx(&config, kernels::scale_add, out, a, factor, b, n), "launching scale_add");
}

void enqueue_multiply(float* out, const float* a, const float* b, int n, cudaStream_t stream) {
  const cudaLaunchConfig_t config = over(n, stream);
  cuda::check(cudaLaunchKernelEx(&config, kernels::multiply, out, a, b, n), "launching multiply");
}

void enqueue_accumulate(float* sum, const float* a, const float* b, int n, cudaStream_t stream) {
  const cudaLaunchConfig_t config = over(n, stream);
  cuda::check(cudaLaunchKernelEx(&config, kernels::accumulate, sum, a, b, n), "launching accumulate");
}

void enqueue_drop(float* out, const float* a, const std::uint64_t* words, int n, cudaStream_t stream) {
  const cudaLaunchConfig_t config = over(n, stream);
  cuda::check(cudaLaunchKernelEx(&config, kernels::drop, out, a, words, n), "launching drop");
}

}  // namespace sluice::test
