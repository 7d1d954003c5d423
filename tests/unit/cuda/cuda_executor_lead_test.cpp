#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "sluice/cuda/cuda_executor.hpp"
#include "sluice/sim/timetable.hpp"

/// Launching ahead by a lead, on a device whose tasks end by hand and in virtual time.
namespace sluice::cuda {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kSlots = 4;

/// Tasks that end when the test says, at the times it says.
class ByHand final : public TaskCode {
 public:
  void enqueue(const Launch& /*launch*/, std::uint32_t place, const CompletionBoard& board,
               cudaStream_t /*stream*/) override {
    marks.push_back(board.mark(place));
  }
  void end_next(Time started, Time ended) {
    CompletionMark* const mark = marks.at(next++);
    mark->started_ns = static_cast<std::uint64_t>(started.count());
    mark->ended_ns = static_cast<std::uint64_t>(ended.count());
    ++mark->ended;
  }

  std::vector<CompletionMark*> marks;
  std::size_t next = 0;
};

/// With a lead of 30 us, after a forward and a whole backward that took 100 us and 200 us.
class CudaExecutorLead : public ::testing::Test {
 protected:
  CudaExecutorLead() {
    run(Pass::Forward, false, 100us);
    run(Pass::Backward, true, 200us);
  }

  static CudaExecutor::Options options() {
    CudaExecutor::Options options;
    options.depth = 3;
    options.lead = 30us;
    options.error_interval = 1h;
    return options;
  }
  void launch(Pass pass, bool whole, Slot slot) {
    executor_.launch({{0, 0, pass}, 0, slot, Lane::Compute, whole});
  }
  /// A task that has all of the device's time.
  void run(Pass pass, bool whole, Duration takes) {
    launch(pass, whole, 0);
    const Time started = clock_.now();
    clock_.advance_to(started + takes);
    end(started, clock_.now());
  }
  void end(Time started, Time ended) {
    code_.end_next(started, ended);
    Done done;
    ASSERT_TRUE(executor_.poll(done));
    EXPECT_EQ(done.started, started);
    EXPECT_EQ(done.ended, ended);
  }
  [[nodiscard]] std::uint32_t room() const { return executor_.room(Lane::Compute); }
  void pass_time(Duration time) { clock_.advance_to(clock_.now() + time); }

  Pipeline pipeline_ = Pipeline::chain(1, 8);
  sim::VirtualClock clock_;
  ByHand code_;
  CudaExecutor executor_{clock_, pipeline_, 0, kSlots, code_, options()};
};

TEST_F(CudaExecutorLead, ATaskIsLaunchedAheadOnlySoLongBeforeTheExpectedEnd) {
  EXPECT_EQ(room(), 3U);
  launch(Pass::Forward, false, 0);
  EXPECT_EQ(room(), 0U);
  pass_time(69us);
  EXPECT_EQ(room(), 0U);
  pass_time(1us);
  EXPECT_EQ(room(), 2U);
}

TEST_F(CudaExecutorLead, ItIsExpectedByTheAverageOfItsOwnPass) {
  launch(Pass::Backward, true, 0);
  pass_time(169us);
  EXPECT_EQ(room(), 0U);
  pass_time(1us);
  EXPECT_EQ(room(), 2U);
}

TEST_F(CudaExecutorLead, WhatIsLaunchedAheadIsExpectedBehindWhatRuns) {
  launch(Pass::Forward, false, 0);
  pass_time(80us);
  launch(Pass::Backward, true, 0);
  EXPECT_EQ(room(), 0U) << "the end of the second counts: at 300 us";
  pass_time(189us);
  EXPECT_EQ(room(), 0U);
  pass_time(1us);
  EXPECT_EQ(room(), 1U);
}

TEST_F(CudaExecutorLead, ALateEndMovesTheNextOne) {
  const Time start = clock_.now();
  launch(Pass::Forward, false, 0);
  pass_time(80us);
  launch(Pass::Backward, true, 0);
  pass_time(70us);
  end(start, start + 150us);
  pass_time(169us);
  EXPECT_EQ(room(), 0U);
  pass_time(1us);
  EXPECT_EQ(room(), 2U);
}

TEST_F(CudaExecutorLead, TheAverageFollowsTheTimes) {
  run(Pass::Forward, false, 300us);
  launch(Pass::Forward, false, 0);
  pass_time(169us);
  EXPECT_EQ(room(), 0U) << "200 us on average";
  pass_time(1us);
  EXPECT_EQ(room(), 2U);
}

TEST_F(CudaExecutorLead, NothingIsExpectedOfAPassThatNeverRan) {
  launch(Pass::WeightGrad, false, 0);
  EXPECT_EQ(room(), 2U);
}

TEST_F(CudaExecutorLead, OtherLanesAreNotHeldUp) {
  launch(Pass::Forward, false, 0);
  EXPECT_EQ(executor_.room(Lane::WeightGrad), 3U);
}

}  // namespace
}  // namespace sluice::cuda
