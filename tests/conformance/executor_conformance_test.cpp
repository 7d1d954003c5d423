#include "executor_conformance.hpp"

#include <chrono>
#include <memory>
#include <vector>

#include "sluice/host/emulated_executor.hpp"
#include "sluice/host/event_wake.hpp"
#include "sluice/host/host_executor.hpp"
#include "sluice/host/in_process_group.hpp"
#include "sluice/host/lockstep_executor.hpp"
#include "sluice/host/observed_executor.hpp"
#include "sluice/host/slot_buffers.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/sim/sim_executor.hpp"

namespace sluice {
namespace {

class EmulatedRig {
 public:
  static constexpr Ends kEnds = Ends::AtDeadlines;
  explicit EmulatedRig(std::uint32_t depth) : executor_(clock_, shrinking, depth) {}

  Executor& executor() { return executor_; }
  void pass_time() { clock_.advance_to(executor_.next_deadline()); }

 private:
  sim::VirtualClock clock_;
  host::EmulatedExecutor executor_;
};

class SimRig {
 public:
  static constexpr Ends kEnds = Ends::AtDeadlines;
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
  static constexpr Ends kEnds = Ends::AtDeadlines;
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

/// With a worker of its own, or with this thread.
template <bool LentThread>
class HostRig {
 public:
  static constexpr Ends kEnds = Ends::Notified;
  explicit HostRig(std::uint32_t depth)
      : buffers_(pipeline_, 0, kTasks),
        executor_(pipeline_, 0, {&stage_}, buffers_, wake_, {0, depth, 60s, LentThread}) {}

  Executor& executor() { return executor_; }
  void pass_time() {
    if (LentThread) executor_.run_one(host::SteadyClock().now() + 1s);
    wake_.wait_until(host::SteadyClock().now() + 1s);
  }

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
  static constexpr Ends kEnds = Inner::kEnds;
  explicit ObservedRig(std::uint32_t depth) : inner_(depth), executor_(inner_.executor()) {}

  Executor& executor() { return executor_; }
  void pass_time() { inner_.pass_time(); }

 private:
  Inner inner_;
  host::ObservedExecutor executor_;
};

using Rigs =
    ::testing::Types<EmulatedRig, LockstepRig<1>, LockstepRig<3>, SimRig, HostRig<false>, HostRig<true>,
                     ObservedRig<EmulatedRig>, ObservedRig<HostRig<false>>, ObservedRig<HostRig<true>>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Host, ExecutorConformance, Rigs);

}  // namespace
}  // namespace sluice
