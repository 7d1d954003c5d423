#include "first_common.hpp"

#include <cub/block/block_reduce.cuh>
#include <cuda/atomic>

#include "sluice/cuda/cuda_error.hpp"

namespace sluice::nccl {
namespace kernels {

constexpr int kThreads = 256;

/// One block: what is left to do for more would cost more than it saves.
__global__ void __launch_bounds__(kThreads)
    find_first_common(const std::uint8_t* bytes, Windows windows, std::uint64_t attempt, Answer* answer) {
  using Reduction = cub::BlockReduce<Firsts, kThreads>;
  __shared__ typename Reduction::TempStorage storage;
  const Firsts firsts =
      Reduction(storage).Reduce(firsts_of_share(bytes, windows, threadIdx.x, kThreads), Earlier{});
  if (threadIdx.x != 0) return;
  answer->firsts = firsts;
  ::cuda::atomic_ref<std::uint64_t, ::cuda::thread_scope_system>(answer->attempt)
      .store(attempt, ::cuda::memory_order_release);
}

}  // namespace kernels

void enqueue_first_common(const std::uint8_t* bytes, const kernels::Windows& windows, std::uint64_t attempt,
                          kernels::Answer* answer, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = 1;
  config.blockDim = kernels::kThreads;
  config.stream = stream;
  cuda::check(cudaLaunchKernelEx(&config, kernels::find_first_common, bytes, windows, attempt, answer),
              "looking for the first tasks that a group has in common");
}

}  // namespace sluice::nccl
