#pragma once

#include <cuda_runtime_api.h>

/// What the kernels of diagonal_layers.cu do for one element, or one column.
namespace diagonal {

/// out = x * w, where w has one value a column.
__host__ __device__ inline void scale_element(float* out, const float* x, const float* w, int width, int i) {
  out[i] = x[i] * w[i % width];
}

/// grad += sum over the rows of x * y, always in the same order.
__host__ __device__ inline void add_column(float* grad, const float* x, const float* y, int rows, int width,
                                           int column) {
  float sum = 0;
  for (int row = 0; row < rows; ++row) sum += x[row * width + column] * y[row * width + column];
  grad[column] += sum;
}

}  // namespace diagonal
