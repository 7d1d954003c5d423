#include <gtest/gtest.h>

#include "../counting_allocator.hpp"
#include "cuda/ended_code.hpp"
#include "null_seams.hpp"
#include "sluice/cuda/cuda_executor.hpp"
#include "sluice/dispatcher.hpp"
#include "sluice/host/steady_clock.hpp"

/// Nothing that the dispatcher and the CUDA executor do for a task allocates. What the runtime does to launch
/// work is left out.
namespace sluice {
namespace {

class CudaHotPath : public ::testing::TestWithParam<Duration> {};

TEST_P(CudaHotPath, WholeIterationsAllocateNothing) {
  const Pipeline pipeline = Pipeline::chain(3, 200, true);
  const host::SteadyClock clock;
  test::EndedCode code;
  cuda::CudaExecutor::Options options;
  options.lead = GetParam();
  DispatcherConfig config;
  config.rank = config.stage = 1;
  config.limit = 8;
  cuda::CudaExecutor executor(clock, pipeline, 1, config.limit, code, options);
  test::NullTransport transport(pipeline, 1);
  SingleRank agreement;
  Dispatcher dispatcher(pipeline, config, Policy::readiness(Hint::named("bfw", pipeline, 1)),
                        {executor, transport, agreement, clock});
  for (std::uint64_t index = 0; index < 2; ++index) {
    dispatcher.begin({index});
    transport.begin(index);
    const test::CountedAllocations counted;
    while (!dispatcher.finished()) dispatcher.progress();
    EXPECT_EQ(counted.count(), 0U);
    EXPECT_TRUE(dispatcher.finished());
  }
}

INSTANTIATE_TEST_SUITE_P(AnyLeadAndNone, CudaHotPath, ::testing::Values(Duration::max(), Duration(0)));

}  // namespace
}  // namespace sluice
