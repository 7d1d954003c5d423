#include "../../support/cuda/scalar.hpp"

#include "fake_cuda.hpp"

namespace {

namespace kernels = sluice::test::kernels;

void scalar_set(dim3 /*grid*/, dim3 /*block*/, double* out, double value) { kernels::set_scalar(out, value); }

void scalar_multiply(dim3 /*grid*/, dim3 /*block*/, double* out, const double* a, const double* b) {
  kernels::multiply_scalars(out, a, b);
}

void scalar_add(dim3 /*grid*/, dim3 /*block*/, double* sum, const double* x) { kernels::add_scalar(sum, x); }

[[maybe_unused]] const bool kRegistered =
    fakecuda::kernel("sluice::test::kernels::scalar_set(", &scalar_set) &&
    fakecuda::kernel("sluice::test::kernels::scalar_multiply(", &scalar_multiply) &&
    fakecuda::kernel("sluice::test::kernels::scalar_add(", &scalar_add);

}  // namespace
