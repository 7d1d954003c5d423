#include <cuda_runtime.h>

#include "number_kernels.hpp"

namespace fake_cuda_tests {
namespace {

constexpr unsigned kBlock = 128;

unsigned blocks(int n) { return (static_cast<unsigned>(n) + kBlock - 1) / kBlock; }

cudaLaunchConfig_t configure(int n, cudaStream_t stream) {
  cudaLaunchConfig_t configuration{};
  configuration.gridDim = dim3(blocks(n));
  configuration.blockDim = dim3(kBlock);
  configuration.stream = stream;
  return configuration;
}

}  // namespace

__global__ void count_up_kernel(int* out, int n, int first) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = first + i;
}

__global__ void add_kernel(const int* a, const int* b, int* out, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = a[i] + b[i];
}

template <typename Number>
__global__ void scale_kernel(Number* x, int n, Number factor) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) x[i] *= factor;
}

__global__ void unknown_kernel() {}

// Launched by several threads at a time, which would race in nvcc's own code for <<<>>>.
cudaError_t count_up(int* out, int n, int first, cudaStream_t stream) {
  const cudaLaunchConfig_t configuration = configure(n, stream);
  return cudaLaunchKernelEx(&configuration, count_up_kernel, out, n, first);
}

cudaError_t add(const int* a, const int* b, int* out, int n, cudaStream_t stream) {
  const cudaLaunchConfig_t configuration = configure(n, stream);
  return cudaLaunchKernelEx(&configuration, add_kernel, a, b, out, n);
}

cudaError_t scale(int* x, int n, int factor, cudaStream_t stream) {
  const cudaLaunchConfig_t configuration = configure(n, stream);
  return cudaLaunchKernelEx(&configuration, scale_kernel<int>, x, n, factor);
}

cudaError_t launch_unknown(cudaStream_t stream) {
  unknown_kernel<<<1, 1, 0, stream>>>();
  return cudaGetLastError();
}

cudaError_t launch_with_block(int* out, unsigned threads, cudaStream_t stream) {
  count_up_kernel<<<1, threads, 0, stream>>>(out, 1, 0);
  return cudaGetLastError();
}

cudaError_t count_up_by_brackets(int* out, int n, int first, cudaStream_t stream) {
  count_up_kernel<<<blocks(n), kBlock, 0, stream>>>(out, n, first);
  return cudaGetLastError();
}

}  // namespace fake_cuda_tests
