#include "sluice/host/rank_runner.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <vector>

#include "noted_observer.hpp"
#include "sluice/error.hpp"
#include "sluice/host/event_wake.hpp"
#include "sluice/host/in_process_network.hpp"

namespace sluice::host {
namespace {

using namespace std::chrono_literals;

/// Ends a rank's run after so many looks in vain, with no moment to wait for.
class PatientWatch final : public RunWatch {
 public:
  explicit PatientWatch(int looks) : patience_(looks), looks_(looks) {}

  [[nodiscard]] bool failed() const noexcept override { return looks_ < 0; }
  void progressed(Time at) noexcept override {
    last_ = at;
    looks_ = patience_;
  }
  void idle(Time /*now*/) override { --looks_; }

  [[nodiscard]] Time last() const noexcept { return last_; }

 private:
  int patience_;
  int looks_;
  Time last_{};
};

/// One stage of a chain of two, whose neighbour does nothing unless the test drives it.
class RankRunnerTest : public ::testing::Test {
 protected:
  RankRunner make(StageId stage, PatientWatch& watch) {
    return {
        pipeline_, workload_, settings_, Policy::readiness(Hint::named("bf", pipeline_, stage)),
        RankParts{stage, stage, buffers_[stage], network_.endpoint(stage), agreement_, wakes_[stage], watch}};
  }

  Pipeline pipeline_ = Pipeline::chain(2, 3);
  Workload workload_ = [] {
    Workload workload;
    workload.task_time = [](const Launch&) { return 100us; };
    return workload;
  }();
  RunSettings settings_;
  std::vector<EventWake> wakes_ = std::vector<EventWake>(2);
  std::array<SlotBuffers, 2> buffers_{SlotBuffers(pipeline_, 0, 32), SlotBuffers(pipeline_, 1, 32)};
  InProcessNetwork network_{
      pipeline_, std::vector<InProcessNetwork::Member>{{nullptr, &wakes_[0]}, {nullptr, &wakes_[1]}}};
  SingleRank agreement_;
};

TEST_F(RankRunnerTest, StopsWhenAnotherRankHasFailed) {
  PatientWatch watch(20);
  RankRunner runner = make(1, watch);
  EXPECT_THROW(runner.run({}), Aborted);
}

TEST_F(RankRunnerTest, SaysWhatItWaitsForAndSinceWhen) {
  PatientWatch watch(40);
  RankRunner runner = make(0, watch);
  EXPECT_THROW(runner.run({}), Aborted);
  const Waiting waiting = runner.waiting();
  ASSERT_EQ(waiting.blocked.size(), 3U);
  EXPECT_EQ(waiting.blocked[0].task, (Task{0, 0, Pass::Backward}));
  EXPECT_EQ(waiting.blocked[0].what, WaitFor::Message);
  EXPECT_GE(waiting.since.value(), 0ns);
  EXPECT_LE(waiting.since.value(), SteadyClock().now() - watch.last());
}

TEST_F(RankRunnerTest, TellsTheObserverThatAnIterationWasGivenUp) {
  test::NotedObserver observer;
  settings_.observers = {nullptr, &observer};
  PatientWatch watch(20);
  RankRunner runner = make(1, watch);
  EXPECT_THROW(runner.run({}), Aborted);
  EXPECT_EQ(observer.take(), (std::vector<std::string>{"begin 0", "wait message", "stop"}));
}

TEST_F(RankRunnerTest, CallsTheHooksAroundTheIteration) {
  std::vector<std::uint32_t> called;
  workload_.before_iteration = [&](std::uint32_t rank, const Iteration&) { called.push_back(rank); };
  workload_.after_iteration = [&](std::uint32_t rank, const Iteration&) { called.push_back(10 + rank); };
  PatientWatch watch(20);
  RankRunner runner = make(1, watch);
  EXPECT_THROW(runner.run({}), Aborted);
  EXPECT_EQ(called, (std::vector<std::uint32_t>{1})) << "an iteration that failed has no end";
}

/// Takes one task, which never ends.
class NeverEnding final : public Executor {
 public:
  NeverEnding(std::vector<Launch>& launched, Time deadline) : launched_(launched), deadline_(deadline) {}

  [[nodiscard]] std::uint32_t room(Lane /*lane*/) const override { return launched_.empty() ? 1 : 0; }
  void launch(const Launch& launch) override { launched_.push_back(launch); }
  bool poll(Done& /*done*/) override { return false; }
  [[nodiscard]] Time next_deadline() const override { return deadline_; }

 private:
  std::vector<Launch>& launched_;
  Time deadline_;
};

TEST_F(RankRunnerTest, RunsTheEmbeddersDevice) {
  std::vector<Launch> launched;
  std::vector<std::uint32_t> asked;
  const Wake* wake = nullptr;
  workload_.make_device = [&](std::uint32_t rank, StageId stage, std::uint32_t slots, Wake& own) {
    asked = {rank, stage, slots};
    wake = &own;
    return std::make_unique<NeverEnding>(launched, kNever);
  };
  PatientWatch watch(40);
  RankRunner runner = make(0, watch);
  EXPECT_EQ(asked, (std::vector<std::uint32_t>{0, 0, 32}));
  EXPECT_EQ(wake, &wakes_[0]);
  EXPECT_THROW(runner.run({}), Aborted);
  ASSERT_EQ(launched.size(), 1U);
  EXPECT_EQ(launched[0].task, (Task{0, 0, Pass::Forward}));
}

TEST_F(RankRunnerTest, RefusesAFactoryWithoutADevice) {
  workload_.make_device = [](std::uint32_t, StageId, std::uint32_t, Wake&) { return nullptr; };
  PatientWatch watch(1);
  try {
    make(0, watch);
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "workload");
  }
}

/// Only a moment that is known counts as getting on; else a device that hangs would never be found out.
TEST_F(RankRunnerTest, ADeviceThatMustBeLookedAtAllTheTimeMayBeStuck) {
  std::vector<Launch> launched;
  workload_.make_device = [&](std::uint32_t, StageId, std::uint32_t, Wake&) {
    return std::make_unique<NeverEnding>(launched, kAnyTime);
  };
  for (const Duration interval : {0us, 20us}) {
    launched.clear();
    settings_.poll_interval = interval;
    PatientWatch watch(60);
    RankRunner runner = make(0, watch);
    EXPECT_THROW(runner.run({}), Aborted);
  }
}

}  // namespace
}  // namespace sluice::host
