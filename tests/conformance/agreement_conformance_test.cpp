#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "sluice/agree/form.hpp"
#include "sluice/agreement.hpp"
#include "sluice/host/draws.hpp"
#include "sluice/host/in_process_group.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/sim/sim_group.hpp"

/// What every agreement must do, alone and in a group, its members looked at in turn.
namespace sluice {
namespace {

constexpr Microbatch kMicrobatches = 8;

/// A rank on its own.
class Alone {
 public:
  static constexpr std::uint32_t kMembers = 1;
  explicit Alone(const StageTasks& /*tasks*/) {}
  [[nodiscard]] Agreement& member(std::uint32_t /*member*/) { return agreement_; }

 private:
  SingleRank agreement_;
};

/// The simulator's model, without latency.
template <sim::GroupRule Rule, std::uint32_t Members>
class Modelled {
 public:
  static constexpr std::uint32_t kMembers = Members;
  explicit Modelled(const StageTasks& tasks)
      : group_(tasks, Members, Rule, Duration{0}, 0, clock_, timetable_) {}
  [[nodiscard]] Agreement& member(std::uint32_t member) { return group_.endpoint(member); }

 private:
  sim::VirtualClock clock_;
  sim::Timetable timetable_;
  sim::SimGroup group_;
};

/// The runtime's own, over in-process channels.
template <agree::Form Form, std::uint32_t Members>
class Real {
 public:
  static constexpr std::uint32_t kMembers = Members;
  explicit Real(const StageTasks& tasks) : channels_(std::vector<Wake*>(Members), agree::needs(Form, tasks)) {
    for (std::uint32_t member = 0; member < Members; ++member)
      agreements_.push_back(agree::make_agreement(Form, tasks, channels_.channel(member), clock_));
  }
  [[nodiscard]] Agreement& member(std::uint32_t member) { return *agreements_[member]; }

 private:
  sim::VirtualClock clock_;
  host::InProcessGroup channels_;
  std::vector<std::unique_ptr<Agreement>> agreements_;
};

template <typename Implementation>
class AgreementConformance : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kMembers = Implementation::kMembers;

  AgreementConformance() : arbiters_(kMembers, Arbiter(tasks_, Hint::named("bf", pipeline_, 0))) { begin(0); }

  void begin(std::uint64_t iteration) {
    for (std::uint32_t member = 0; member < kMembers; ++member) {
      arbiters_[member].begin();
      group_.member(member).begin({iteration, IterationKind::Training}, arbiters_[member]);
    }
  }
  void change(std::uint32_t member, const Task& task, bool runnable) {
    runnable ? arbiters_[member].insert(task) : arbiters_[member].erase(task);
    const RunnableChange change{task, runnable};
    group_.member(member).announce({&change, 1});
  }
  void make_runnable(const Task& task) {
    for (std::uint32_t member = 0; member < kMembers; ++member) change(member, task, true);
  }
  [[nodiscard]] std::optional<Task> poll(std::uint32_t member, PassMask allowed) {
    const auto task = group_.member(member).poll(arbiters_[member], allowed);
    if (task) arbiters_[member].decided(*task);
    return task;
  }
  /// The members' next decision: all the same, or all without.
  [[nodiscard]] std::optional<Task> decide(PassMask allowed = kAllPasses) {
    constexpr int kRounds = 6;
    std::vector<std::optional<Task>> decisions(kMembers);
    for (int round = 0; round < kRounds; ++round) {
      for (std::uint32_t member = 0; member < kMembers; ++member) {
        if (!decisions[member]) decisions[member] = poll(member, allowed);
      }
    }
    for (const auto& decision : decisions) EXPECT_EQ(decision, decisions[0]);
    return decisions[0];
  }

  Pipeline pipeline_ = Pipeline::chain(2, kMicrobatches, true);
  StageTasks tasks_{pipeline_, 0};
  std::vector<Arbiter> arbiters_;
  Implementation group_{tasks_};
};

using agree::Form;
using sim::GroupRule;
using Implementations =
    ::testing::Types<Alone, Modelled<GroupRule::CommonCandidate, 1>, Modelled<GroupRule::CommonCandidate, 3>,
                     Modelled<GroupRule::FirstPick, 1>, Modelled<GroupRule::FirstPick, 3>,
                     Real<Form::Leader, 1>, Real<Form::Leader, 2>, Real<Form::Leader, 3>,
                     Real<Form::Leader, 4>, Real<Form::FirstPick, 1>, Real<Form::FirstPick, 2>,
                     Real<Form::FirstPick, 3>, Real<Form::FirstPick, 4>, Real<Form::Bitmap, 1>,
                     Real<Form::Bitmap, 2>, Real<Form::Bitmap, 3>, Real<Form::Bitmap, 4>>;
TYPED_TEST_SUITE(AgreementConformance, Implementations);

TYPED_TEST(AgreementConformance, DecidesNothingWhileNothingIsRunnable) {
  EXPECT_EQ(this->decide(), std::nullopt);
  this->group_.member(0).announce({});
  EXPECT_EQ(this->decide(), std::nullopt);
}

TYPED_TEST(AgreementConformance, DecidesATaskThatIsRunnableAndAllowed) {
  this->make_runnable({3, 0, Pass::Forward});
  EXPECT_EQ(this->decide(mask_of(Pass::Backward)), std::nullopt);
  EXPECT_EQ(this->decide(kAllPasses), (Task{3, 0, Pass::Forward}));
}

TYPED_TEST(AgreementConformance, DoesNotDecideWhatCeasedToBeRunnable) {
  const Task task{3, 0, Pass::Forward};
  this->make_runnable(task);
  this->change(this->kMembers - 1, task, false);
  EXPECT_EQ(this->decide(), std::nullopt);
}

TYPED_TEST(AgreementConformance, DecidesWhatIsRunnableOnEveryMember) {
  const Task task{3, 0, Pass::Forward};
  for (std::uint32_t member = 0; member < this->kMembers; ++member) {
    EXPECT_EQ(this->decide(), std::nullopt);
    this->change(member, task, true);
  }
  EXPECT_EQ(this->decide(), task);
}

TYPED_TEST(AgreementConformance, DecidesEveryTaskOnceInTheArbitersOrder) {
  for (Microbatch m = kMicrobatches; m-- > 0;) this->make_runnable({m, 0, Pass::Forward});
  std::vector<Microbatch> decided;
  while (const auto task = this->decide()) decided.push_back(task->microbatch);
  EXPECT_EQ(decided, (std::vector<Microbatch>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TYPED_TEST(AgreementConformance, AskingInVainChangesNothing) {
  this->make_runnable({0, 0, Pass::Forward});
  this->make_runnable({1, 0, Pass::Backward});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(this->decide(mask_of(Pass::WeightGrad)), std::nullopt);
  EXPECT_EQ(this->decide(kAllPasses), (Task{1, 0, Pass::Backward}));
}

TYPED_TEST(AgreementConformance, RoundsAdvanceWithDecisionsAlone) {
  for (Microbatch m = 0; m < 3; ++m) {
    this->make_runnable({m, 0, Pass::Forward});
    this->make_runnable({m, 0, Pass::Backward});
  }
  std::vector<Pass> passes;
  while (const auto task = this->decide()) passes.push_back(task->pass);
  const auto F = Pass::Forward;
  const auto B = Pass::Backward;
  EXPECT_EQ(passes, (std::vector<Pass>{B, F, B, F, B, F}));
}

TYPED_TEST(AgreementConformance, BeginForgetsWhatWasRunnable) {
  this->make_runnable({5, 0, Pass::Forward});
  EXPECT_EQ(this->decide(), (Task{5, 0, Pass::Forward}));
  for (std::uint64_t iteration = 1; iteration < 4; ++iteration) {
    this->begin(iteration);
    EXPECT_EQ(this->decide(), std::nullopt);
    this->make_runnable({2, 0, Pass::Forward});
    EXPECT_EQ(this->decide(), (Task{2, 0, Pass::Forward}));
  }
}

/// Tasks become runnable in another order on every member, and members are looked at in any order.
TYPED_TEST(AgreementConformance, AllMembersRunOneSequence) {
  constexpr std::uint32_t kMembers = TestFixture::kMembers;
  constexpr std::uint64_t kSeeds = 50;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    this->begin(seed);
    std::vector<std::vector<Task>> to_come(kMembers);
    std::vector<std::vector<Task>> ran(kMembers);
    for (auto& tasks : to_come) {
      for (std::uint32_t pass = 0; pass < kPasses; ++pass) {
        for (Microbatch m = 0; m < kMicrobatches; ++m) tasks.push_back({m, 0, static_cast<Pass>(pass)});
      }
    }
    const auto all_ran = [&] {
      std::size_t count = 0;
      for (const auto& tasks : ran) count += tasks.size();
      return count == kMembers * kPasses * kMicrobatches;
    };
    constexpr std::uint64_t kMostSteps = 20'000;
    for (std::uint64_t step = 0; step < kMostSteps && !all_ran(); ++step) {
      const std::uint64_t draw = host::draws::bits({seed, step});
      const auto member = static_cast<std::uint32_t>(draw % kMembers);
      std::vector<Task>& tasks = to_come[member];
      if (draw % 5 == 0 && !tasks.empty()) {
        const auto at = static_cast<std::ptrdiff_t>((draw >> 20U) % tasks.size());
        this->change(member, tasks[static_cast<std::size_t>(at)], true);
        tasks.erase(tasks.begin() + at);
      }
      if (const auto task = this->poll(member, kAllPasses)) ran[member].push_back(*task);
    }
    ASSERT_TRUE(all_ran()) << "seed " << seed;
    for (const auto& tasks : ran) ASSERT_EQ(tasks, ran[0]) << "seed " << seed;
  }
}

}  // namespace
}  // namespace sluice
