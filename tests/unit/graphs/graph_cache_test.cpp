#include "sluice/graphs/graph_cache.hpp"

#include <dlpack/dlpack.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <tuple>
#include <vector>

#include "cuda/cached_chunk.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/cuda/eager_code.hpp"
#include "sluice/error.hpp"

namespace sluice::graphs {
namespace {

using test::CachedChunk;
using test::ChainEnd;
using test::ChunkResults;
using test::run_all;
using test::StageFault;

int all_elements(Microbatch /*microbatch*/) { return 64; }

TEST(GraphCache, CapturesEveryTaskOfEverySlot) {
  CachedChunk chunk({.slots = 3});
  std::vector<std::uint32_t> progress;
  chunk.capture([&](std::uint32_t done, std::uint32_t all) {
    EXPECT_EQ(all, 12U);
    progress.push_back(done);
  });
  EXPECT_THAT(progress, ::testing::ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
  ASSERT_EQ(chunk.cache().captured().size(), 12U);
  std::vector<CaptureKey> keys;
  for (const CapturedTask& task : chunk.cache().captured()) {
    SCOPED_TRACE(to_string(task.key));
    keys.push_back(task.key);
    EXPECT_GE(task.nodes.total(), 20U);
    EXPECT_GE(task.nodes.kernels, 18U);
    EXPECT_EQ(task.nodes.host_functions, 0U);
    EXPECT_EQ(task.bucket, 0U);
    EXPECT_EQ(task.graph_bytes, 0U);
    EXPECT_GT(task.capture.count(), 0);
    EXPECT_GT(task.instantiate.count(), 0);
    ASSERT_TRUE(task.verified);
    EXPECT_EQ(task.verification, Verification{});
  }
  EXPECT_EQ(keys, chunk.cache().tasks());
  EXPECT_EQ(chunk.cache().statistics().captures, 12U);
  EXPECT_EQ(chunk.cache().statistics().instantiations, 12U);
}

TEST(GraphCache, CountsTheNodesOfAPassByKind) {
  CachedChunk chunk({.slots = 1});
  chunk.capture();
  for (const CapturedTask& task : chunk.cache().captured()) {
    SCOPED_TRACE(to_string(task.key));
    switch (task.key.pass) {
      case Pass::Forward:  // 15 in branches, 2 to join them, weights, dropout, and two marks; two copies
        EXPECT_EQ(task.nodes, (NodeCounts{.kernels = 21, .copies = 2}));
        break;
      case Pass::Backward:
        EXPECT_EQ(task.nodes, (NodeCounts{.kernels = task.key.whole ? 21U : 20U, .copies = 1}));
        break;
      case Pass::WeightGrad:  // of 18 segments, two have none of the 64 elements
        EXPECT_EQ(task.nodes, (NodeCounts{.kernels = 19, .fills = 1}));
        break;
    }
  }
}

TEST(GraphCache, MeasuresTheMemoryThatAGraphAllocates) {
  for (const bool verify : {true, false}) {
    GraphCache::Options options;
    options.verify = verify;
    CachedChunk chunk({.slots = 1, .cache = options, .stream_memory = true});
    CachedChunk by_calls({.slots = 1, .stream_memory = true});
    chunk.capture();
    for (const CapturedTask& task : chunk.cache().captured()) {
      SCOPED_TRACE(to_string(task.key));
      const bool allocates = task.key.pass == Pass::Backward;
      EXPECT_EQ(task.nodes.allocations, allocates ? 2U : 0U);
      if (!allocates) {
        EXPECT_EQ(task.graph_bytes, 0U);
      } else if (verify) {
        EXPECT_GE(task.graph_bytes, 64 * sizeof(float));
      }
    }
    EXPECT_EQ(run_all(chunk, chunk.cache(), false, all_elements),
              run_all(by_calls, by_calls.eager(), false, all_elements));
  }
}

TEST(GraphCache, CapturesOnlyWhatThePipelineCanAskFor) {
  CachedChunk split({.slots = 1, .split = true});
  EXPECT_THAT(split.cache().tasks(), ::testing::ElementsAre(CaptureKey{1, Pass::Forward, false, 0},
                                                            CaptureKey{1, Pass::Backward, false, 0},
                                                            CaptureKey{1, Pass::WeightGrad, false, 0}));
}

class Replays : public ::testing::TestWithParam<std::tuple<ChainEnd, bool, std::uint32_t>> {};

TEST_P(Replays, AreAsRunsCallByCall) {
  const auto [end, split, slots] = GetParam();
  CachedChunk by_graphs({.end = end, .slots = slots, .split = split});
  CachedChunk by_calls({.end = end, .slots = slots, .split = split});
  by_graphs.capture();
  const ChunkResults expected = run_all(by_calls, by_calls.eager(), split, all_elements);
  EXPECT_EQ(run_all(by_graphs, by_graphs.cache(), split, all_elements), expected);
  EXPECT_THAT(expected.weight_gradient, ::testing::Contains(::testing::Ne(0.0F)));
  EXPECT_EQ(by_graphs.cache().statistics().eager, 0U);
  EXPECT_EQ(by_graphs.cache().statistics().launches, CachedChunk::kMicrobatches * (split ? 3U : 2U));
}

INSTANTIATE_TEST_SUITE_P(GraphCache, Replays,
                         ::testing::Combine(::testing::Values(ChainEnd::First, ChainEnd::Middle,
                                                              ChainEnd::Last),
                                            ::testing::Bool(), ::testing::Values(1U, 5U, 12U)));

TEST(GraphCache, SlotsReplayedAlternatelyKeepApart) {
  CachedChunk chunk({.slots = 2});
  chunk.capture();
  const auto outputs_of = [&](Microbatch microbatch, Slot slot) {
    chunk.arrive(microbatch, slot, 64);
    chunk.run(chunk.cache(), chunk.launch_of(Pass::Forward, microbatch, slot, false));
    return chunk.read(chunk.slot(slot).outputs[0][0]);
  };
  const std::vector<float> zero = outputs_of(0, 0);
  const std::vector<float> one = outputs_of(1, 1);
  EXPECT_NE(zero, one);
  for (int round = 0; round < 10; ++round) {
    for (const Slot slot : {0U, 1U})
      chunk.enqueue(chunk.cache(), chunk.launch_of(Pass::Forward, slot, slot, false), chunk.stream());
    cuda::check(cudaStreamSynchronize(chunk.stream()), "waiting");
    EXPECT_EQ(chunk.read(chunk.slot(0).outputs[0][0]), zero);
    EXPECT_EQ(chunk.read(chunk.slot(1).outputs[0][0]), one);
  }
}

TEST(GraphCache, DropoutFollowsTheMicrobatchAndNotTheSlot) {
  CachedChunk chunk({.slots = 2});
  chunk.capture();
  const auto output_of = [&](Microbatch microbatch, Slot slot, std::uint64_t iteration) {
    chunk.arrive(0, slot, 64);
    chunk.run(chunk.cache(), chunk.launch_of(Pass::Forward, microbatch, slot, false, iteration));
    return chunk.read(chunk.slot(slot).outputs[0][0]);
  };
  const std::vector<float> first = output_of(3, 0, 5);
  EXPECT_EQ(output_of(3, 1, 5), first);
  EXPECT_NE(output_of(4, 0, 5), first);
  EXPECT_NE(output_of(3, 0, 6), first);
}

TEST(GraphCache, LeavesTheStagesStateAsItWas) {
  CachedChunk chunk({.slots = 2});
  static_cast<void>(run_all(chunk, chunk.eager(), false, all_elements));
  const std::vector<float> before = chunk.stage().weight_gradient();
  chunk.capture();
  EXPECT_EQ(chunk.stage().weight_gradient(), before);
}

TEST(GraphCache, ShowsTheEndOfAReplayOnTheBoard) {
  CachedChunk chunk({.slots = 1});
  chunk.capture();
  const Launch launch = chunk.launch_of(Pass::Forward, 0, 0, false);
  EXPECT_TRUE(chunk.board().ended(chunk.place_of(launch)));
  chunk.arrive(0, 0, 64);
  std::atomic<bool> open{false};
  const auto wait = [](void* gate) {
    while (!static_cast<std::atomic<bool>*>(gate)->load()) std::this_thread::yield();
  };
  cuda::check(cudaLaunchHostFunc(chunk.stream(), wait, &open), "closing the gate");
  chunk.enqueue(chunk.cache(), launch, chunk.stream());
  EXPECT_FALSE(chunk.board().ended(chunk.place_of(launch)));
  open = true;
  cuda::check(cudaStreamSynchronize(chunk.stream()), "waiting");
  EXPECT_TRUE(chunk.board().ended(chunk.place_of(launch)));
}

TEST(GraphCache, RunsTheLanesOfAStageAtTheSameTime) {
  GraphCache::Options options;
  options.lanes = {Lane::Compute, Lane::Compute, Lane::WeightGrad};
  CachedChunk chunk({.slots = 12, .split = true, .cache = options});
  CachedChunk by_calls({.slots = 12, .split = true});
  chunk.capture();
  const cuda::Stream weight_grads = cuda::make_stream();
  const cuda::Event backward = cuda::make_event();
  for (Microbatch m = 0; m < CachedChunk::kMicrobatches; ++m) chunk.arrive(m, m, 64);
  for (Microbatch m = 0; m < CachedChunk::kMicrobatches; ++m) {
    chunk.enqueue(chunk.cache(), chunk.launch_of(Pass::Forward, m, m, false, 1), chunk.stream());
    chunk.enqueue(chunk.cache(), chunk.launch_of(Pass::Backward, m, m, false, 1), chunk.stream());
    cuda::check(cudaEventRecord(backward.get(), chunk.stream()), "recording");
    cuda::check(cudaStreamWaitEvent(weight_grads.get(), backward.get(), 0), "waiting");
    chunk.enqueue(chunk.cache(), chunk.launch_of(Pass::WeightGrad, m, m, false, 1), weight_grads.get());
  }
  cuda::check(cudaStreamSynchronize(weight_grads.get()), "waiting");
  const ChunkResults expected = run_all(by_calls, by_calls.eager(), true, all_elements);
  EXPECT_EQ(chunk.stage().weight_gradient(), expected.weight_gradient);
  EXPECT_EQ(chunk.cache().statistics().eager, 0U);
}

TEST(GraphCache, ATaskOnAnotherLaneThanItsGraphRunsCallByCall) {
  GraphCache::Options options;
  options.lanes = {Lane::Compute, Lane::Compute, Lane::WeightGrad};
  CachedChunk chunk({.slots = 1, .split = true, .cache = options});
  chunk.capture();
  chunk.arrive(0, 0, 64);
  chunk.run(chunk.cache(), chunk.launch_of(Pass::Forward, 0, 0, false));
  chunk.run(chunk.cache(), chunk.launch_of(Pass::Backward, 0, 0, false));
  Launch launch = chunk.launch_of(Pass::WeightGrad, 0, 0, false);
  launch.lane = Lane::Compute;
  chunk.run(chunk.cache(), launch);
  EXPECT_EQ(chunk.cache().statistics().eager, 1U);
}

TEST(GraphCache, AnotherBoardThanTheCapturedOneGetsItsMarks) {
  CachedChunk chunk({.slots = 1});
  chunk.capture();
  chunk.arrive(0, 0, 64);
  cuda::CompletionBoard other(3);
  const Launch launch = chunk.launch_of(Pass::Forward, 0, 0, false);
  chunk.cache().enqueue(launch, chunk.place_of(launch), other, chunk.stream());
  other.launched(chunk.place_of(launch));
  cuda::check(cudaStreamSynchronize(chunk.stream()), "waiting");
  EXPECT_TRUE(other.ended(chunk.place_of(launch)));
  EXPECT_EQ(chunk.cache().statistics().eager, 1U);
}

TEST(GraphCache, HoldsTheGraphsOfSeveralChunks) {
  const Pipeline pipeline = Pipeline::interleaved(2, 2, 4);
  test::BranchedStage first({.slots = 3, .input = false, .chunk = 0});
  test::BranchedStage second({.slots = 3, .chunk = 2});
  TensorShape shape;
  shape.dtype_code = kDLFloat;
  shape.dtype_bits = 32;
  shape.rank = 1;
  shape.extent[0] = 64;
  const std::vector<cuda::EdgeLayout> layouts(3, cuda::EdgeLayout{shape});
  const std::vector<cuda::ChunkMemory> chunks{first.memory(), second.memory()};
  cuda::SlotMemory memory(pipeline, 0, 3, layouts, chunks);
  GraphCache cache(pipeline, 0, {&first, &second}, memory, {});
  cuda::CompletionBoard board(18);
  const auto place_of = [](const Launch& launch) {
    const std::uint32_t pass = launch.task.chunk / 2 * 3U + static_cast<std::uint32_t>(launch.task.pass);
    return pass * 3 + launch.slot;
  };
  cache.capture_all(board, place_of);
  EXPECT_EQ(cache.captured().size(), 24U);
  EXPECT_EQ(cache.captured().back().key, (CaptureKey{2, Pass::WeightGrad, false, 2}));

  const cuda::Stream stream = cuda::make_stream();
  cuda::EagerCode eager(pipeline, 0, {&first, &second}, memory, 0);
  const auto output_of = [&](cuda::TaskCode& code, std::uint32_t position, Slot slot) {
    const Launch launch{{1, static_cast<Chunk>(2 * position), Pass::Forward}, 0, slot};
    code.enqueue(launch, place_of(launch), board, stream.get());
    board.launched(place_of(launch));
    std::vector<float> output(64);
    cuda::check(cudaMemcpyAsync(output.data(), memory.at(position, slot).outputs[0][0].data,
                                64 * sizeof(float), cudaMemcpyDeviceToHost, stream.get()),
                "reading");
    cuda::check(cudaStreamSynchronize(stream.get()), "reading");
    return output;
  };
  for (const std::uint32_t position : {0U, 1U}) {
    const cuda::SlotBuffers& slot = memory.at(position, 2);
    if (!slot.inputs.empty())
      cuda::check(cudaMemsetAsync(slot.inputs[0][0].data, 0x3F, 64 * sizeof(float), stream.get()), "filling");
    const std::vector<float> expected = output_of(eager, position, 2);
    cuda::check(cudaMemsetAsync(slot.outputs[0][0].data, 0, 64 * sizeof(float), stream.get()), "clearing");
    EXPECT_EQ(output_of(cache, position, 2), expected);
    EXPECT_THAT(expected, ::testing::Contains(::testing::Ne(0.0F)));
  }
  EXPECT_EQ(cache.statistics().launches, 2U);
}

TEST(GraphCache, ReservesGraphsForAllTasksOrRefuses) {
  GraphCache::Options options;
  options.most_graphs = 3;
  CachedChunk chunk({.slots = 1, .cache = options});
  try {
    chunk.capture();
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "most_graphs");
  }
}

TEST(GraphCache, RefusesCodeForAnotherNumberOfChunks) {
  CachedChunk chunk({.slots = 1});
  try {
    const GraphCache cache(chunk.pipeline(), 1, {}, chunk.memory(), {});
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "code");
  }
}

}  // namespace
}  // namespace sluice::graphs
