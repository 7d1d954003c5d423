#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "cuda/cached_chunk.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/graphs/graph_cache.hpp"

namespace sluice::graphs {
namespace {

using test::CachedChunk;
using test::ChainEnd;
using test::ChunkResults;
using test::run_all;
using test::StageFault;

int alternating(Microbatch microbatch) { return microbatch % 3 == 0 ? 40 : 64; }

GraphCache::Options capturing_unseen() {
  GraphCache::Options options;
  options.capture_unseen = true;
  return options;
}

/// Holds back what is put on a stream after it.
class Gate {
 public:
  explicit Gate(cudaStream_t stream) : stream_(stream) {
    const auto wait = [](void* open) {
      while (!static_cast<std::atomic<bool>*>(open)->load()) std::this_thread::yield();
    };
    cuda::check(cudaLaunchHostFunc(stream, wait, &open_), "closing a gate");
  }
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void open() {
    open_ = true;
    cuda::check(cudaStreamSynchronize(stream_), "waiting");
  }

 private:
  cudaStream_t stream_;
  std::atomic<bool> open_{false};
};

class UnseenShapes : public ::testing::TestWithParam<std::tuple<ChainEnd, bool>> {};

TEST_P(UnseenShapes, AreComputedAllTheSame) {
  const auto [end, capture] = GetParam();
  GraphCache::Options options;
  options.capture_unseen = capture;
  CachedChunk by_graphs({.end = end, .slots = 4, .cache = options});
  CachedChunk by_calls({.end = end, .slots = 4});
  by_graphs.capture();
  EXPECT_EQ(run_all(by_graphs, by_graphs.cache(), false, alternating),
            run_all(by_calls, by_calls.eager(), false, alternating));
  const CacheStatistics& done = by_graphs.cache().statistics();
  EXPECT_EQ(done.launches + done.eager, 2U * CachedChunk::kMicrobatches);
  EXPECT_EQ(done.eager, capture ? 0U : 8U);
  EXPECT_GT(done.launches, 0U);
}

// The last chunk of the chain has no outputs, the first no inputs.
INSTANTIATE_TEST_SUITE_P(GraphCache, UnseenShapes,
                         ::testing::Combine(::testing::Values(ChainEnd::First, ChainEnd::Middle,
                                                              ChainEnd::Last),
                                            ::testing::Bool()));

TEST(ShapeBuckets, AnUnseenShapeIsCapturedOnceIfAsked) {
  CachedChunk chunk({.slots = 1, .cache = capturing_unseen()});
  chunk.capture();
  const std::size_t ahead = chunk.cache().captured().size();
  for (Microbatch m = 0; m < 3; ++m) {
    chunk.arrive(m, 0, 40);
    chunk.run(chunk.cache(), chunk.launch_of(Pass::Forward, m, 0, false));
  }
  ASSERT_EQ(chunk.cache().captured().size(), ahead + 1);
  const CapturedTask& task = chunk.cache().captured().back();
  EXPECT_EQ(task.bucket, 1U);
  EXPECT_FALSE(task.verified);
  ASSERT_EQ(task.shapes.size(), 1U);
  EXPECT_EQ(task.shapes[0].extent[0], 40);
  EXPECT_EQ(chunk.cache().statistics().launches, 3U);
}

TEST(ShapeBuckets, ALaunchGivesWhatItWritesTheCapturedShape) {
  CachedChunk chunk({.slots = 1, .cache = capturing_unseen()});
  for (const int elements : {40, 64, 40, 64}) {
    chunk.arrive(0, 0, elements);
    chunk.run(chunk.cache(), chunk.launch_of(Pass::Forward, 0, 0, false));
    chunk.run(chunk.cache(), chunk.launch_of(Pass::Backward, 0, 0, true));
    EXPECT_EQ(chunk.slot(0).outputs[0][0].shape.extent[0], elements);
    EXPECT_EQ(chunk.slot(0).input_grads[0][0].shape.extent[0], elements);
  }
  EXPECT_EQ(chunk.cache().statistics().captures, 4U);
  EXPECT_EQ(chunk.cache().statistics().launches, 8U);
}

TEST(ShapeBuckets, SeveralAreCapturedAhead) {
  CachedChunk chunk({.slots = 2});
  for (const int elements : {64, 40, 24}) {
    for (const Slot slot : {0U, 1U}) chunk.arrive(0, slot, elements);
    chunk.capture();
  }
  EXPECT_EQ(chunk.cache().captured().size(), 24U);
  for (const CapturedTask& task : chunk.cache().captured()) {
    EXPECT_TRUE(task.verified);
    EXPECT_EQ(task.shapes[0].extent[0], (std::vector{64, 40, 24}[task.bucket]));
  }
  EXPECT_EQ(chunk.cache().statistics().updates, 0U);
}

TEST(ShapeBuckets, CapturingAgainUpdatesTheGraphs) {
  CachedChunk chunk({.slots = 2});
  chunk.capture();
  chunk.capture();
  EXPECT_EQ(chunk.cache().captured().size(), 8U);
  EXPECT_EQ(chunk.cache().statistics().captures, 16U);
  EXPECT_EQ(chunk.cache().statistics().instantiations, 8U);
  EXPECT_EQ(chunk.cache().statistics().updates, 8U);
}

TEST(ShapeBuckets, AnUpdatedGraphHasTheNewParameters) {
  GraphCache::Options options;
  options.verify = false;
  CachedChunk chunk({.slots = 2, .cache = options});
  const auto output = [&] {
    chunk.arrive(0, 1, 64);
    chunk.run(chunk.cache(), chunk.launch_of(Pass::Forward, 0, 1, false));
    return chunk.read(chunk.slot(1).outputs[0][0]);
  };
  chunk.capture();
  const std::vector<float> before = output();
  // Slot 1 is captured as microbatch 1, so that the fault doubles a part.
  chunk.stage().set_fault(StageFault::BakesHostValue);
  chunk.capture();
  EXPECT_EQ(chunk.cache().statistics().updates, 8U);
  EXPECT_NE(output(), before);
}

TEST(ShapeBuckets, AGraphOfOtherNodesIsInstantiatedAnew) {
  GraphCache::Options options;
  options.verify = false;
  CachedChunk chunk({.slots = 1, .cache = options});
  chunk.capture();
  chunk.stage().set_fault(StageFault::ReadsOldTemporary);
  chunk.capture();
  EXPECT_EQ(chunk.cache().statistics().updates, 3U);
  EXPECT_EQ(chunk.cache().statistics().instantiations, 5U);
  chunk.arrive(0, 0, 64);
  chunk.run(chunk.cache(), chunk.launch_of(Pass::Forward, 0, 0, false));
  EXPECT_EQ(chunk.cache().statistics().launches, 1U);
}

TEST(ShapeBuckets, TheLeastRecentlyLaunchedGraphGoes) {
  GraphCache::Options options = capturing_unseen();
  options.most_graphs = 2;
  CachedChunk chunk({.slots = 3, .cache = options});
  const auto forward = [&](Slot slot) {
    chunk.arrive(0, slot, 64);
    chunk.run(chunk.cache(), chunk.launch_of(Pass::Forward, 0, slot, false));
  };
  const auto slots_held = [&] {
    std::vector<Slot> slots;
    for (const CapturedTask& task : chunk.cache().captured()) slots.push_back(task.key.slot);
    return slots;
  };
  forward(0);
  forward(1);
  forward(0);
  forward(2);
  EXPECT_THAT(slots_held(), ::testing::UnorderedElementsAre(0, 2));
  forward(1);
  EXPECT_THAT(slots_held(), ::testing::UnorderedElementsAre(1, 2));
  EXPECT_EQ(chunk.cache().statistics().evictions, 2U);
  forward(2);
  EXPECT_EQ(chunk.cache().statistics().captures, 4U);
  EXPECT_EQ(chunk.cache().statistics().launches, 6U);
}

TEST(ShapeBuckets, AGraphOnTheDeviceStays) {
  GraphCache::Options options = capturing_unseen();
  options.most_graphs = 1;
  CachedChunk chunk({.slots = 2, .cache = options});
  for (const Slot slot : {0U, 1U}) chunk.arrive(slot, slot, 64);
  Gate gate(chunk.stream());
  chunk.enqueue(chunk.cache(), chunk.launch_of(Pass::Forward, 0, 0, false), chunk.stream());
  chunk.enqueue(chunk.cache(), chunk.launch_of(Pass::Forward, 1, 1, false), chunk.stream());
  EXPECT_EQ(chunk.cache().statistics().evictions, 0U);
  EXPECT_EQ(chunk.cache().statistics().eager, 1U);
  EXPECT_EQ(chunk.cache().statistics().captures, 1U);
  gate.open();
  ASSERT_EQ(chunk.cache().captured().size(), 1U);
  EXPECT_EQ(chunk.cache().captured()[0].key.slot, 0U);
  chunk.run(chunk.cache(), chunk.launch_of(Pass::Forward, 1, 1, false));
  EXPECT_EQ(chunk.cache().statistics().evictions, 1U);
  ASSERT_EQ(chunk.cache().captured().size(), 1U);
  EXPECT_EQ(chunk.cache().captured()[0].key.slot, 1U);
}

}  // namespace
}  // namespace sluice::graphs
