#pragma once

#include <cuda_runtime_api.h>

/// Puts an operation on the stream; scalar.hpp says what each computes.
namespace sluice::test {

void enqueue_set(double* out, double value, cudaStream_t stream);
void enqueue_product(double* out, const double* a, const double* b, cudaStream_t stream);
void enqueue_sum(double* sum, const double* x, cudaStream_t stream);

}  // namespace sluice::test
