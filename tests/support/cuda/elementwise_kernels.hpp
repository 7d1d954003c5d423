#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

/// Puts a kernel over `n` elements on the stream; elementwise.hpp says what each computes.
namespace sluice::test {

void enqueue_scale_add(float* out, const float* a, float factor, const float* b, int n, cudaStream_t stream);
void enqueue_multiply(float* out, const float* a, const float* b, int n, cudaStream_t stream);
void enqueue_accumulate(float* sum, const float* a, const float* b, int n, cudaStream_t stream);
void enqueue_drop(float* out, const float* a, const std::uint64_t* words, int n, cudaStream_t stream);

}  // namespace sluice::test
