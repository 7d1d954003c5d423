#include <gtest/gtest.h>

#include "../counting_allocator.hpp"
#include "ended_graphs.hpp"
#include "null_seams.hpp"
#include "sluice/cuda/cuda_executor.hpp"
#include "sluice/cuda/device.hpp"
#include "sluice/dispatcher.hpp"
#include "sluice/host/steady_clock.hpp"

/// Nothing that the dispatcher, the CUDA executor and the cache of graphs do to launch a captured task
/// allocates. What the runtime does in the launch is left out.
namespace sluice {
namespace {

constexpr StageId kMiddle = 1;

class GraphsHotPath : public ::testing::TestWithParam<bool> {};

TEST_P(GraphsHotPath, WholeIterationsOfCapturedTasksAllocateNothing) {
  cuda::use_device(0);
  const Pipeline pipeline = Pipeline::chain(3, 200, GetParam());
  const host::SteadyClock clock;
  DispatcherConfig config;
  config.rank = config.stage = kMiddle;
  config.limit = 8;
  test::EndedGraphs code(pipeline, kMiddle, config.limit);
  cuda::CudaExecutor executor(clock, pipeline, kMiddle, config.limit, code, {});
  code.capture(executor.board(), [&](const Launch& launch) { return executor.place_of(launch); });
  test::NullTransport transport(pipeline, kMiddle);
  SingleRank agreement;
  Dispatcher dispatcher(pipeline, config, Policy::readiness(Hint::named("bfw", pipeline, kMiddle)),
                        {executor, transport, agreement, clock});
  constexpr std::uint64_t kIterations = 2;
  for (std::uint64_t index = 0; index < kIterations; ++index) {
    dispatcher.begin({index});
    transport.begin(index);
    const test::CountedAllocations counted;
    while (!dispatcher.finished()) dispatcher.progress();
    EXPECT_EQ(counted.count(), 0U);
  }
  const std::uint64_t passes = GetParam() ? 3 : 2;
  EXPECT_EQ(code.statistics().launches, kIterations * passes * pipeline.microbatches());
  EXPECT_EQ(code.statistics().eager, 0U);
}

INSTANTIATE_TEST_SUITE_P(WholeAndSplit, GraphsHotPath, ::testing::Bool());

}  // namespace
}  // namespace sluice
