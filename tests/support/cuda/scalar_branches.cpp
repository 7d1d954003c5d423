#include "cuda/scalar_branches.hpp"

#include "cuda/scalar_kernels.hpp"
#include "sluice/cuda/cuda_error.hpp"

namespace sluice::test {

ScalarBranches::ScalarBranches()
    : branches_{cuda::make_stream(), cuda::make_stream()},
      forked_(cuda::make_event()),
      joined_{cuda::make_event(), cuda::make_event()} {
  const cuda::Stream stream = cuda::make_stream();
  enqueue_set(reinterpret_cast<double*>(one_.data()), 1, stream.get());
  cuda::check(cudaStreamSynchronize(stream.get()), "setting a number");
}

ScalarBranches::Numbers ScalarBranches::enqueue(const Numbers& numbers, double* temporary,
                                                cudaStream_t stream) const {
  const auto* const one = reinterpret_cast<const double*>(one_.data());
  Numbers ends{};
  cuda::check(cudaEventRecord(forked_.get(), stream), "forking");
  for (std::size_t branch = 0; branch < kBranches; ++branch) {
    const cudaStream_t way = branch == 0 ? stream : branches_[branch - 1].get();
    if (branch > 0) cuda::check(cudaStreamWaitEvent(way, forked_.get(), 0), "forking");
    const double* number = numbers[branch];
    for (std::size_t step = 0; step < kSteps; ++step) {
      double* const next = temporary + branch * kSteps + step;
      enqueue_product(next, number, one, way);
      number = next;
    }
    ends[branch] = number;
  }
  for (std::size_t branch = 1; branch < kBranches; ++branch) {
    cuda::check(cudaEventRecord(joined_[branch - 1].get(), branches_[branch - 1].get()), "joining");
    cuda::check(cudaStreamWaitEvent(stream, joined_[branch - 1].get(), 0), "joining");
  }
  return ends;
}

}  // namespace sluice::test
