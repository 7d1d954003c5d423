// Stand-ins of tests/unit/fake_cuda/number_kernels.cu.

#include "fake_cuda.hpp"

namespace {

void count_up(dim3 /*grid*/, dim3 /*block*/, int* out, int n, int first) {
  for (int i = 0; i < n; ++i) out[i] = first + i;
}

void add(dim3 /*grid*/, dim3 /*block*/, const int* a, const int* b, int* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

void scale(dim3 /*grid*/, dim3 /*block*/, int* x, int n, int factor) {
  for (int i = 0; i < n; ++i) x[i] *= factor;
}

[[maybe_unused]] const bool kRegistered = fakecuda::kernel("fake_cuda_tests::count_up_kernel(", count_up) &&
                                          fakecuda::kernel("fake_cuda_tests::add_kernel(", add) &&
                                          fakecuda::kernel("fake_cuda_tests::scale_kernel<int>(", scale);

}  // namespace
