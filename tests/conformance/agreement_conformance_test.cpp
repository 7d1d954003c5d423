#include <gtest/gtest.h>

#include <vector>

#include "sluice/agreement.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/sim/sim_group.hpp"

/// What every agreement must do for a group of one rank.
namespace sluice {
namespace {

constexpr Microbatch kMicrobatches = 8;

/// A simulated group with nobody else in it, and no latency.
template <sim::GroupRule Rule>
class SimGroupOfOne final : public Agreement {
 public:
  void announce(std::span<const RunnableChange> changes) override { group_.endpoint(0).announce(changes); }
  [[nodiscard]] std::optional<Task> poll(const Arbiter& arbiter, PassMask allowed) override {
    return group_.endpoint(0).poll(arbiter, allowed);
  }

 private:
  Pipeline pipeline_ = Pipeline::chain(2, kMicrobatches);
  StageTasks tasks_{pipeline_, 0};
  sim::VirtualClock clock_;
  sim::Timetable timetable_;
  sim::SimGroup group_{
      tasks_, Arbiter(tasks_, Hint::named("bf", pipeline_, 0)), 1, Rule, Duration{0}, 0, clock_, timetable_};
};

template <typename Implementation>
class AgreementConformance : public ::testing::Test {
 protected:
  void make_runnable(const Task& task) {
    arbiter_.insert(task);
    const RunnableChange change{task, true};
    agreement_.announce({&change, 1});
  }

  Pipeline pipeline_ = Pipeline::chain(2, kMicrobatches);
  Arbiter arbiter_{StageTasks(pipeline_, 0), Hint::named("bf", pipeline_, 0)};
  Implementation agreement_;
};

using Implementations = ::testing::Types<SingleRank, SimGroupOfOne<sim::GroupRule::CommonCandidate>,
                                         SimGroupOfOne<sim::GroupRule::FirstPick>>;
TYPED_TEST_SUITE(AgreementConformance, Implementations);

TYPED_TEST(AgreementConformance, DecidesNothingWhileNothingIsRunnable) {
  EXPECT_EQ(this->agreement_.poll(this->arbiter_, kAllPasses), std::nullopt);
  this->agreement_.announce({});
  EXPECT_EQ(this->agreement_.poll(this->arbiter_, kAllPasses), std::nullopt);
}

TYPED_TEST(AgreementConformance, DecidesATaskThatIsRunnableAndAllowed) {
  this->make_runnable({3, 0, Pass::Forward});
  EXPECT_EQ(this->agreement_.poll(this->arbiter_, mask_of(Pass::Backward)), std::nullopt);
  EXPECT_EQ(this->agreement_.poll(this->arbiter_, kAllPasses), (Task{3, 0, Pass::Forward}));
}

TYPED_TEST(AgreementConformance, DoesNotDecideWhatCeasedToBeRunnable) {
  const Task task{3, 0, Pass::Forward};
  this->make_runnable(task);
  this->arbiter_.erase(task);
  const RunnableChange gone{task, false};
  this->agreement_.announce({&gone, 1});
  EXPECT_EQ(this->agreement_.poll(this->arbiter_, kAllPasses), std::nullopt);
}

TYPED_TEST(AgreementConformance, DecidesEveryTaskOnceInTheArbitersOrder) {
  for (Microbatch m = kMicrobatches; m-- > 0;) this->make_runnable({m, 0, Pass::Forward});
  std::vector<Microbatch> decided;
  while (const auto task = this->agreement_.poll(this->arbiter_, kAllPasses)) {
    this->arbiter_.decided(*task);
    decided.push_back(task->microbatch);
  }
  EXPECT_EQ(decided, (std::vector<Microbatch>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TYPED_TEST(AgreementConformance, AskingInVainChangesNothing) {
  this->make_runnable({0, 0, Pass::Forward});
  this->make_runnable({1, 0, Pass::Backward});
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(this->agreement_.poll(this->arbiter_, mask_of(Pass::WeightGrad)), std::nullopt);
  }
  EXPECT_EQ(this->agreement_.poll(this->arbiter_, kAllPasses), (Task{1, 0, Pass::Backward}));
}

}  // namespace
}  // namespace sluice
