#include "sluice/cuda/completion_board.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <thread>

#include "sluice/cuda/cuda_error.hpp"
#include "sluice/cuda/handles.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::cuda {
namespace {

using namespace std::chrono_literals;

class CompletionBoardTest : public ::testing::Test {
 protected:
  void launch(std::uint32_t place) {
    board_.enqueue_start(place, stream_.get());
    board_.enqueue_end(place, stream_.get());
    board_.launched(place);
  }
  /// False if it does not end within a minute.
  [[nodiscard]] bool wait(std::uint32_t place) const {
    const Time limit = clock_.now() + 1min;
    while (!board_.ended(place) && clock_.now() < limit) std::this_thread::yield();
    return board_.ended(place);
  }

  host::SteadyClock clock_;
  Stream stream_ = make_stream();
  CompletionBoard board_{4};
};

TEST_F(CompletionBoardTest, NothingIsUnderWayAtFirst) {
  EXPECT_EQ(board_.places(), 4U);
  for (std::uint32_t place = 0; place < 4; ++place) EXPECT_TRUE(board_.ended(place));
}

TEST_F(CompletionBoardTest, AnEndIsSeenWithoutACall) {
  launch(2);
  EXPECT_TRUE(wait(2));
}

TEST_F(CompletionBoardTest, WhatHasNotEndedIsNotSeenToHave) {
  board_.launched(1);
  EXPECT_FALSE(board_.ended(1));
  EXPECT_TRUE(board_.ended(0)) << "places are apart";
  EXPECT_TRUE(board_.ended(2));
  board_.enqueue_end(1, stream_.get());
  EXPECT_TRUE(wait(1));
}

TEST_F(CompletionBoardTest, EveryLaunchCountsOnce) {
  for (int i = 0; i < 5; ++i) {
    launch(0);
    ASSERT_TRUE(wait(0));
  }
  board_.launched(0);
  EXPECT_FALSE(board_.ended(0));
  board_.enqueue_end(0, stream_.get());
  EXPECT_TRUE(wait(0));
}

TEST_F(CompletionBoardTest, WhatIsCapturedOnceCountsAtEveryReplay) {
  check(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal), "capturing");
  board_.enqueue_start(3, stream_.get());
  board_.enqueue_end(3, stream_.get());
  cudaGraph_t captured = nullptr;
  check(cudaStreamEndCapture(stream_.get(), &captured), "capturing");
  const Graph graph(captured);
  cudaGraphExec_t made = nullptr;
  check(cudaGraphInstantiate(&made, graph.get(), 0), "instantiating");
  const GraphExec replay(made);
  for (int i = 0; i < 3; ++i) {
    board_.launched(3);
    EXPECT_FALSE(board_.ended(3));
    check(cudaGraphLaunch(replay.get(), stream_.get()), "launching");
    ASSERT_TRUE(wait(3));
  }
}

TEST_F(CompletionBoardTest, WhatTheWorkWroteIsThereWhenItHasEnded) {
  const MappedMemory written(sizeof(std::uint32_t), "a test");
  for (int i = 1; i <= 20; ++i) {
    check(cudaMemsetAsync(written.device(), i, 1, stream_.get()), "filling");
    launch(0);
    ASSERT_TRUE(wait(0));
    EXPECT_EQ(static_cast<int>(written.host()[0]), i);
  }
}

TEST_F(CompletionBoardTest, TellsTheTimesByTheHostsClock) {
  for (int i = 0; i < 10; ++i) {
    const Time launched = clock_.now();
    launch(1);
    ASSERT_TRUE(wait(1));
    const Time seen = clock_.now();
    board_.between(1, launched, seen);
    EXPECT_LE(board_.started_at(1), board_.ended_at(1));
    EXPECT_LE(launched, board_.started_at(1) + 1us) << "the device's timer may go in steps of so much";
    EXPECT_LE(board_.ended_at(1), seen);
  }
}

/// A device whose timer has come to run an hour ahead.
TEST_F(CompletionBoardTest, AClockThatDriftsIsHeldToWhatTheHostKnows) {
  launch(0);
  ASSERT_TRUE(wait(0));
  CompletionMark* const mark = board_.mark(0);
  mark->started_ns = mark->ended_ns + 3'600'000'000'000;
  mark->ended_ns = mark->started_ns + 1000;
  const Time seen = clock_.now();
  board_.between(0, seen - 5us, seen);
  EXPECT_EQ(board_.ended_at(0), seen);
  EXPECT_EQ(board_.started_at(0), seen - 1us);
  mark->started_ns -= 7'200'000'000'000;
  mark->ended_ns -= 7'200'000'000'000;
  board_.between(0, seen - 5us, seen);
  EXPECT_EQ(board_.started_at(0), seen - 5us);
}

TEST(CompletionBoard, MayHaveNoPlaces) { EXPECT_EQ(CompletionBoard(0).places(), 0U); }

}  // namespace
}  // namespace sluice::cuda
