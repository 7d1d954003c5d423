#include <gtest/gtest.h>

#include "../counting_allocator.hpp"
#include "null_seams.hpp"
#include "sluice/dispatcher.hpp"
#include "sluice/nvtx/rank_annotations.hpp"

/// Annotations allocate nothing either, where no tool is attached that does.
namespace sluice {
namespace {

using test::CountedAllocations;

TEST(AnnotatedHotPath, AWholeIterationAllocatesNothing) {
  const Pipeline pipeline = Pipeline::chain(3, 200, true);
  const nvtx::Domain domain;
  const auto annotations = nvtx::annotate_rank(domain, pipeline, 1, {"rank 1 (stage 1)", "bfw"});
  test::NullExecutor executor;
  test::NullTransport transport(pipeline, 1);
  SingleRank agreement;
  const test::StoppedClock clock;
  DispatcherConfig config;
  config.rank = config.stage = 1;
  config.limit = 8;
  config.observer = annotations.get();
  Dispatcher dispatcher(pipeline, config, Policy::readiness(Hint::named("bfw", pipeline, 1)),
                        {executor, transport, agreement, clock});
  for (std::uint64_t index = 0; index < 2; ++index) {
    dispatcher.begin({index});
    const CountedAllocations counted;
    // Nothing has come yet, so the rank waits.
    EXPECT_FALSE(dispatcher.progress());
    transport.begin(index);
    while (!dispatcher.finished() && dispatcher.progress()) {
    }
    EXPECT_EQ(counted.count(), 0U);
    EXPECT_TRUE(dispatcher.finished());
  }
}

}  // namespace
}  // namespace sluice
