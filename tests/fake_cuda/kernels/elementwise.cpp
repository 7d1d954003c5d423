#include "support/cuda/elementwise.hpp"

#include "fake_cuda.hpp"

namespace {

namespace kernels = sluice::test::kernels;

void scale_add(dim3 /*grid*/, dim3 /*block*/, float* out, const float* a, float factor, const float* b,
               int n) {
  for (int i = 0; i < n; ++i) kernels::scale_add_element(out, a, factor, b, i);
}

void multiply(dim3 /*grid*/, dim3 /*block*/, float* out, const float* a, const float* b, int n) {
  for (int i = 0; i < n; ++i) kernels::multiply_element(out, a, b, i);
}

void accumulate(dim3 /*grid*/, dim3 /*block*/, float* sum, const float* a, const float* b, int n) {
  for (int i = 0; i < n; ++i) kernels::accumulate_element(sum, a, b, i);
}

void drop(dim3 /*grid*/, dim3 /*block*/, float* out, const float* a, const std::uint64_t* words, int n) {
  for (int i = 0; i < n; ++i) kernels::drop_element(out, a, words, i);
}

[[maybe_unused]] const bool kRegistered = [] {
  fakecuda::kernel("sluice::test::kernels::scale_add(", &scale_add);
  fakecuda::kernel("sluice::test::kernels::multiply(", &multiply);
  fakecuda::kernel("sluice::test::kernels::accumulate(", &accumulate);
  fakecuda::kernel("sluice::test::kernels::drop(", &drop);
  return true;
}();

}  // namespace
