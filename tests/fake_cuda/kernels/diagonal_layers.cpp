// Stand-ins of docs/capture_plugin/diagonal_layers.cu.

#include "../../../docs/capture_plugin/diagonal_kernels.hpp"

#include "fake_cuda.hpp"

namespace {

void scale(dim3 /*grid*/, dim3 /*block*/, float* out, const float* x, const float* w, int elements,
           int width) {
  for (int i = 0; i < elements; ++i) diagonal::scale_element(out, x, w, width, i);
}

void add_columns(dim3 /*grid*/, dim3 /*block*/, float* grad, const float* x, const float* y, int rows,
                 int width) {
  for (int column = 0; column < width; ++column) diagonal::add_column(grad, x, y, rows, width, column);
}

[[maybe_unused]] const bool kRegistered =
    fakecuda::kernel("diagonal::scale(", &scale) && fakecuda::kernel("diagonal::add_columns(", &add_columns);

}  // namespace
