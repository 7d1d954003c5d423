#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "sluice/error.hpp"
#include "sluice/executor.hpp"
#include "sluice/host/emulated_executor.hpp"
#include "sluice/host/event_wake.hpp"
#include "sluice/host/host_executor.hpp"
#include "sluice/host/in_process_group.hpp"
#include "sluice/host/lockstep_executor.hpp"
#include "sluice/host/observed_executor.hpp"
#include "sluice/host/slot_buffers.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/sim/sim_executor.hpp"

/// What every executor must do, whatever is behind it.
namespace sluice {
namespace {

using namespace std::chrono_literals;

constexpr Microbatch kTasks = 40;

/// Later tasks are shorter, so that an executor that reordered them would show.
Duration shrinking(const Launch& launch) { return std::chrono::microseconds(100 - launch.task.microbatch); }

class EmulatedRig {
 public:
  static constexpr bool kTimed = true;
  explicit EmulatedRig(std::uint32_t depth) : executor_(clock_, shrinking, depth) {}

  Executor& executor() { return executor_; }
  void pass_time() { clock_.advance_to(executor_.next_deadline()); }

 private:
  sim::VirtualClock clock_;
  host::EmulatedExecutor executor_;
};

class SimRig {
 public:
  static constexpr bool kTimed = true;
  explicit SimRig(std::uint32_t depth) : executor_(3, clock_, timetable_, shrinking, depth) {}

  Executor& executor() { return executor_; }
  void pass_time() {
    ASSERT_FALSE(timetable_.empty()) << "a running task must be on the timetable";
    clock_.advance_to(timetable_.next_time());
    EXPECT_EQ(timetable_.pop(), 3U);
  }

 private:
  sim::VirtualClock clock_;
  sim::Timetable timetable_;
  sim::SimExecutor executor_;
};

/// A group of one, and of three that launch the same tasks at the same time.
template <std::uint32_t Members>
class LockstepRig {
 public:
  static constexpr bool kTimed = true;
  explicit LockstepRig(std::uint32_t depth)
      : group_(std::vector<Wake*>(Members), {host::LockstepExecutor::kLongestMessage, kTasks}) {
    for (std::uint32_t member = 0; member < Members; ++member)
      members_.push_back(
          std::make_unique<host::LockstepExecutor>(clock_, group_.channel(member), shrinking, depth));
  }

  Executor& executor() { return joint_; }
  void pass_time() { clock_.advance_to(joint_.next_deadline()); }

 private:
  /// Does to all members what is done to it.
  class Joint final : public Executor {
   public:
    explicit Joint(LockstepRig& rig) : rig_(rig) {}
    [[nodiscard]] std::uint32_t room(Lane lane) const override { return rig_.members_[0]->room(lane); }
    void launch(const Launch& launch) override {
      // The one that is asked comes last, and knows of the others.
      for (std::size_t i = rig_.members_.size(); i-- > 0;) rig_.members_[i]->launch(launch);
    }
    bool poll(Done& done) override {
      bool found = false;
      for (auto& member : rig_.members_) {
        Done same;
        found = member->poll(same);
        EXPECT_TRUE(member == rig_.members_[0] || !found || same.task == done.task);
        if (found) done = same;
      }
      return found;
    }
    [[nodiscard]] Time next_deadline() const override { return rig_.members_[0]->next_deadline(); }

   private:
    LockstepRig& rig_;
  };

  sim::VirtualClock clock_;
  host::InProcessGroup group_;
  std::vector<std::unique_ptr<host::LockstepExecutor>> members_;
  Joint joint_{*this};
};

class HostRig {
 public:
  static constexpr bool kTimed = false;
  explicit HostRig(std::uint32_t depth)
      : buffers_(pipeline_, 0, kTasks), executor_(pipeline_, 0, {&stage_}, buffers_, wake_, {0, depth}) {}

  Executor& executor() { return executor_; }
  void pass_time() { wake_.wait_until(host::SteadyClock().now() + 1s); }

 private:
  class Nothing final : public host::Stage {
   public:
    void forward(const host::TaskContext&, std::span<host::Payload>, std::span<host::Payload>) override {}
    void backward(const host::TaskContext&, bool, std::span<host::Payload>,
                  std::span<host::Payload>) override {}
    void weight_grad(const host::TaskContext&) override {}
  };

  Pipeline pipeline_ = Pipeline::chain(1, kTasks, true);
  Nothing stage_;
  host::SlotBuffers buffers_;
  host::EventWake wake_;
  host::HostExecutor executor_;
};

template <typename Inner>
class ObservedRig {
 public:
  static constexpr bool kTimed = Inner::kTimed;
  explicit ObservedRig(std::uint32_t depth) : inner_(depth), executor_(inner_.executor()) {}

  Executor& executor() { return executor_; }
  void pass_time() { inner_.pass_time(); }

 private:
  Inner inner_;
  host::ObservedExecutor executor_;
};

Launch forward(Microbatch microbatch) { return {{microbatch, 0, Pass::Forward}, 0, microbatch}; }

template <typename Rig>
class ExecutorConformance : public ::testing::Test {
 protected:
  static Done wait(Rig& rig) {
    Done done;
    while (!rig.executor().poll(done)) rig.pass_time();
    return done;
  }
};

using Rigs = ::testing::Types<EmulatedRig, LockstepRig<1>, LockstepRig<3>, SimRig, HostRig,
                              ObservedRig<EmulatedRig>, ObservedRig<HostRig>>;
TYPED_TEST_SUITE(ExecutorConformance, Rigs);

TYPED_TEST(ExecutorConformance, IsIdleAtFirst) {
  TypeParam rig(2);
  Done done;
  EXPECT_FALSE(rig.executor().poll(done));
  EXPECT_EQ(rig.executor().next_deadline(), kNever);
  for (const Lane lane : {Lane::Compute, Lane::WeightGrad, Lane::Reduction})
    EXPECT_EQ(rig.executor().room(lane), 2U);
}

TYPED_TEST(ExecutorConformance, RefusesADepthOfZero) {
  try {
    const TypeParam rig(0);
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "launch-ahead");
  }
}

TYPED_TEST(ExecutorConformance, RoomFallsWithEachLaunchAndComesBackWithEachDone) {
  TypeParam rig(3);
  for (Microbatch m = 0; m < 3; ++m) {
    EXPECT_EQ(rig.executor().room(Lane::Compute), 3 - m);
    rig.executor().launch(forward(m));
  }
  EXPECT_EQ(rig.executor().room(Lane::Compute), 0U);
  for (Microbatch m = 0; m < 3; ++m) {
    this->wait(rig);
    EXPECT_EQ(rig.executor().room(Lane::Compute), m + 1);
  }
}

TYPED_TEST(ExecutorConformance, DoneTellsWhatWasLaunched) {
  TypeParam rig(3);
  rig.executor().launch({{5, 0, Pass::Forward}, 2, 7});
  rig.executor().launch({{5, 0, Pass::Backward}, 2, 7, Lane::Compute, true});
  rig.executor().launch({{4, 0, Pass::WeightGrad}, 2, 6});
  const Done first = this->wait(rig);
  EXPECT_EQ(first.task, (Task{5, 0, Pass::Forward}));
  EXPECT_EQ(first.slot, 7U);
  EXPECT_FALSE(first.whole);
  EXPECT_EQ(first.status, Status::Ok);
  const Done second = this->wait(rig);
  EXPECT_EQ(second.task, (Task{5, 0, Pass::Backward}));
  EXPECT_EQ(second.slot, 7U);
  EXPECT_TRUE(second.whole);
  const Done third = this->wait(rig);
  EXPECT_EQ(third.task, (Task{4, 0, Pass::WeightGrad}));
  EXPECT_EQ(third.slot, 6U);
  EXPECT_FALSE(third.whole);
}

/// Order, no loss and no overlap within a lane, always launching as far ahead as there is room.
TYPED_TEST(ExecutorConformance, RunsALaneInLaunchOrderWithoutOverlap) {
  for (const std::uint32_t depth : {1U, 2U, 5U}) {
    TypeParam rig(depth);
    Microbatch launched = 0;
    std::vector<Done> dones;
    while (dones.size() < kTasks) {
      while (launched < kTasks && rig.executor().room(Lane::Compute) > 0)
        rig.executor().launch(forward(launched++));
      dones.push_back(this->wait(rig));
    }
    Time before{0};
    for (Microbatch m = 0; m < kTasks; ++m) {
      EXPECT_EQ(dones[m].task.microbatch, m);
      EXPECT_LE(before, dones[m].started);
      EXPECT_LE(dones[m].started, dones[m].ended);
      before = dones[m].ended;
    }
    Done done;
    EXPECT_FALSE(rig.executor().poll(done)) << "nothing runs twice";
    EXPECT_EQ(rig.executor().room(Lane::Compute), depth);
    EXPECT_EQ(rig.executor().next_deadline(), kNever);
  }
}

TYPED_TEST(ExecutorConformance, AnnouncesWhenItsTasksEndIfNobodyNotifies) {
  TypeParam rig(2);
  rig.executor().launch(forward(0));
  rig.executor().launch(forward(1));
  if (TypeParam::kTimed) {
    const Time deadline = rig.executor().next_deadline();
    EXPECT_EQ(deadline, Time(100us));
    EXPECT_EQ(this->wait(rig).ended, deadline);
    EXPECT_EQ(rig.executor().next_deadline(), Time(199us));
  } else {
    EXPECT_EQ(rig.executor().next_deadline(), kNever);
  }
}

TYPED_TEST(ExecutorConformance, TasksOfSeveralLanesAllEnd) {
  TypeParam rig(3);
  const Lane lanes[] = {Lane::Compute, Lane::WeightGrad, Lane::Reduction};
  for (Microbatch m = 0; m < 3; ++m) {
    ASSERT_GT(rig.executor().room(lanes[m]), 0U);
    rig.executor().launch({{m, 0, Pass::Forward}, 0, m, lanes[m]});
  }
  std::vector<Microbatch> ended;
  while (ended.size() < 3) ended.push_back(this->wait(rig).task.microbatch);
  std::sort(ended.begin(), ended.end());
  EXPECT_EQ(ended, (std::vector<Microbatch>{0, 1, 2}));
}

}  // namespace
}  // namespace sluice
