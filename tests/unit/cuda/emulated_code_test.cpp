#include "sluice/cuda/emulated_code.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../../../engine/src/cuda/kernels/completion_mark.hpp"
#include "../../../engine/src/cuda/kernels/spin.hpp"
#include "sluice/cuda/cuda_executor.hpp"
#include "sluice/error.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/host/threaded_run.hpp"

namespace sluice::cuda {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kSlots = 4;

std::string refusal_of(const EmulatedCode::Options& options) {
  try {
    const EmulatedCode code([](const Launch&) { return 1us; }, options);
    return "accepted";
  } catch (const ConfigError& error) {
    return error.field();
  }
}

TEST(EmulatedCode, RefusesWhatNoDeviceRuns) {
  EXPECT_EQ(refusal_of({0, 32}), "blocks");
  EXPECT_EQ(refusal_of({1, 0}), "threads");
  EXPECT_EQ(refusal_of({1, 1025}), "threads");
  EXPECT_EQ(refusal_of({132, 1024}), "accepted");
}

TEST(EmulatedCode, TasksTakeAtLeastTheTimeTheyAreGiven) {
  const Pipeline pipeline = Pipeline::chain(1, 8);
  const host::SteadyClock clock;
  EmulatedCode code([](const Launch& launch) { return 100us * (launch.task.microbatch + 1); }, {2, 64});
  CudaExecutor executor(clock, pipeline, 0, kSlots, code, {});
  const Time limit = clock.now() + 1min;
  for (Microbatch m = 0; m < 4; ++m) {
    executor.launch({{m, 0, Pass::Forward}, 0, m});
    Done done;
    while (!executor.poll(done)) {
      ASSERT_LT(clock.now(), limit);
      std::this_thread::yield();
    }
    EXPECT_GE(done.ended - done.started + 2us, 100us * (m + 1)) << "but for two steps of the device's timer";
  }
}

/// Several stages, each with an executor of its own, on one device.
TEST(EmulatedCode, StandsInForTheDevicesOfAWholeRun) {
  const Pipeline pipeline = Pipeline::chain(4, 10, true);
  const host::SteadyClock clock;
  EmulatedCode code([](const Launch& launch) { return 20us + 1us * launch.task.microbatch; }, {});
  host::Workload workload;
  workload.make_device = [&](std::uint32_t rank, StageId stage, std::uint32_t slots, Wake&) {
    CudaExecutor::Options options;
    options.rank = rank;
    return std::make_unique<CudaExecutor>(clock, pipeline, stage, slots, code, options);
  };
  host::RunSettings settings;
  settings.poll_interval = 20us;
  host::ThreadedRun run(
      pipeline, [&](StageId stage) { return Policy::readiness(Hint::named("bfw", pipeline, stage)); },
      workload, settings);
  for (std::uint64_t index = 0; index < 3; ++index) {
    const host::IterationReport report = run.run({index});
    for (const host::RankReport& rank : report.ranks) EXPECT_EQ(rank.ran.size(), 30U);
  }
}

/// Only the block that is through last says so.
TEST(Marks, AnEndIsCountedAndThePlaceReadyForTheNext) {
  CompletionMark mark;
  PlaceCounts counts{7, 3};
  kernels::note_start(mark, 100);
  EXPECT_EQ(kernels::note_end(mark, counts, 250), 8U);
  EXPECT_EQ(counts.ended, 8U);
  EXPECT_EQ(counts.blocks, 0U);
  EXPECT_EQ(mark.started_ns, 100U);
  EXPECT_EQ(mark.ended_ns, 250U);
  EXPECT_EQ(mark.ended, 0U) << "is published by who calls, after all that was written before";
}

TEST(Spin, EndsNeverTooSoonHoweverLongItIs) {
  EXPECT_EQ(kernels::spin_deadline(1000, 5), 1005U);
  EXPECT_EQ(kernels::spin_deadline(1000, ~std::uint64_t{0}), ~std::uint64_t{0});
}

/// A device may sleep twice as long as it was told to.
TEST(Spin, NeverSleepsBeyondItsEnd) {
  for (std::uint64_t left = 0; left < 100'000; left += 7) {
    const std::uint64_t pause = kernels::spin_pause_ns(1000, 1000 + left);
    EXPECT_LE(2 * pause, left);
    EXPECT_LE(pause, 10'000U);
  }
  EXPECT_EQ(kernels::spin_pause_ns(1000, 31'000), 10'000U);
  EXPECT_EQ(kernels::spin_pause_ns(1000, 1), 0U);
}

}  // namespace
}  // namespace sluice::cuda
