#pragma once

#include <cuda_runtime_api.h>

namespace fake_cuda_tests {

/// out[i] = first + i
cudaError_t count_up(int* out, int n, int first, cudaStream_t stream);
/// out[i] = a[i] + b[i]
cudaError_t add(const int* a, const int* b, int* out, int n, cudaStream_t stream);
/// x[i] *= factor, by a template.
cudaError_t scale(int* x, int n, int factor, cudaStream_t stream);
/// A kernel that has no stand-in.
cudaError_t launch_unknown(cudaStream_t stream);
/// With a block of so many threads.
cudaError_t launch_with_block(int* out, unsigned threads, cudaStream_t stream);
/// By `<<<>>>`; all others with a launch configuration given as a structure.
cudaError_t count_up_by_brackets(int* out, int n, int first, cudaStream_t stream);

}  // namespace fake_cuda_tests
