#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

/// The arithmetic of the test kernels, one element at a time: the same on the device and in their stand-ins.
namespace sluice::test::kernels {

/// out = a * factor + b
__host__ __device__ inline void scale_add_element(float* out, const float* a, float factor, const float* b,
                                                  int i) {
  out[i] = a[i] * factor + b[i];
}

/// out = a * b
__host__ __device__ inline void multiply_element(float* out, const float* a, const float* b, int i) {
  out[i] = a[i] * b[i];
}

/// sum += a * b
__host__ __device__ inline void accumulate_element(float* sum, const float* a, const float* b, int i) {
  sum[i] += a[i] * b[i];
}

/// Drops about half of the elements, by the random state at `words`: seed, then offset.
__host__ __device__ inline void drop_element(float* out, const float* a, const std::uint64_t* words, int i) {
  std::uint64_t bits = words[0] ^ (words[1] + static_cast<std::uint64_t>(i)) * 0x9E3779B97F4A7C15ULL;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9ULL;
  out[i] = (bits >> 40) % 2 == 0 ? 0.0F : 2.0F * a[i];
}

}  // namespace sluice::test::kernels
