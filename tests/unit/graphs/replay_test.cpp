#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "cuda/cached_chunk.hpp"
#include "sluice/cuda/stage.hpp"
#include "sluice/graphs/graph_cache.hpp"

namespace sluice::graphs {
namespace {

using test::CachedChunk;

void run_forward(CachedChunk& chunk) {
  chunk.arrive(0, 0, 64);
  chunk.run(chunk.cache(), chunk.launch_of(Pass::Forward, 0, 0, false));
}

void run_backward(CachedChunk& chunk) {
  chunk.run(chunk.cache(), chunk.launch_of(Pass::Backward, 0, 0, true));
}

CachedChunk::Options capturing(bool unseen) {
  CachedChunk::Options options;
  options.slots = 1;
  options.cache.capture_unseen = unseen;
  return options;
}

TEST(Replay, AStaleGraphIsNotLaunched) {
  CachedChunk chunk(capturing(false));
  chunk.capture();
  chunk.stage().set_replay(cuda::Replay::Again);
  run_forward(chunk);
  run_backward(chunk);
  EXPECT_EQ(chunk.cache().statistics().launches, 1U);
  EXPECT_EQ(chunk.cache().statistics().eager, 1U);
}

TEST(Replay, AStaleGraphIsCapturedAgainInItsPlaceIfAsked) {
  CachedChunk chunk(capturing(true));
  chunk.capture();
  const std::uint64_t captures = chunk.cache().statistics().captures;
  const std::size_t held = chunk.cache().captured().size();
  chunk.stage().set_replay(cuda::Replay::Again);
  run_forward(chunk);
  run_backward(chunk);
  EXPECT_EQ(chunk.cache().statistics().captures, captures + 1);
  EXPECT_EQ(chunk.cache().captured().size(), held);
  EXPECT_EQ(chunk.cache().statistics().launches, 2U);
}

TEST(Replay, WhatCannotBeCapturedRunsCallByCall) {
  CachedChunk chunk(capturing(true));
  chunk.capture();
  const std::uint64_t captures = chunk.cache().statistics().captures;
  chunk.stage().set_replay(cuda::Replay::ByCalls);
  run_forward(chunk);
  run_backward(chunk);
  EXPECT_EQ(chunk.cache().statistics().captures, captures);
  EXPECT_EQ(chunk.cache().statistics().eager, 1U);
  chunk.stage().set_replay(cuda::Replay::Held);
  run_backward(chunk);
  EXPECT_EQ(chunk.cache().statistics().launches, 2U);
}

TEST(Replay, AnUnverifiedGraphRunsOnceIfOtherPassesNeedWhatItSaves) {
  for (const bool outside : {false, true}) {
    CachedChunk::Options options = capturing(false);
    options.cache.verify = false;
    CachedChunk chunk(options);
    if (outside) chunk.stage().set_saves_outside_slot();
    const std::vector<float> before = chunk.stage().weight_gradient();
    chunk.capture();
    const std::vector<float> output = chunk.read(chunk.slot(0).outputs[0][0]);
    EXPECT_EQ(std::ranges::none_of(output, [](float value) { return std::isnan(value); }), outside);
    const std::uint32_t place = chunk.place_of(chunk.launch_of(Pass::Forward, 0, 0, false));
    EXPECT_TRUE(chunk.board().ended(place));
    EXPECT_EQ(chunk.stage().weight_gradient(), before);
  }
}

}  // namespace
}  // namespace sluice::graphs
