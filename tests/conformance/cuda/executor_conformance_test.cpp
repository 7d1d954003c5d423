#include "../executor_conformance.hpp"

#include <chrono>
#include <thread>

#include "sluice/cuda/cuda_executor.hpp"
#include "sluice/cuda/emulated_code.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice {
namespace {

template <cuda::CudaExecutor::Completion Completion>
class CudaRig {
 public:
  static constexpr Ends kEnds = Ends::Polled;
  explicit CudaRig(std::uint32_t depth)
      : code_(shrinking, {}), executor_(clock_, pipeline_, 0, kTasks, code_, options(depth)) {}

  Executor& executor() { return executor_; }
  void pass_time() { std::this_thread::sleep_for(10us); }

 private:
  static cuda::CudaExecutor::Options options(std::uint32_t depth) {
    cuda::CudaExecutor::Options options;
    options.depth = depth;
    options.completion = Completion;
    return options;
  }

  host::SteadyClock clock_;
  Pipeline pipeline_ = Pipeline::chain(1, kTasks, true);
  cuda::EmulatedCode code_;
  cuda::CudaExecutor executor_;
};

using Rigs = ::testing::Types<CudaRig<cuda::CudaExecutor::Completion::Flags>,
                              CudaRig<cuda::CudaExecutor::Completion::Events>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Cuda, ExecutorConformance, Rigs);

}  // namespace
}  // namespace sluice
