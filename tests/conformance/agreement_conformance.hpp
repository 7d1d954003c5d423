#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "sluice/agreement.hpp"
#include "sluice/error.hpp"
#include "sluice/host/draws.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/pipeline.hpp"

/// What every agreement must do, alone and in a group, its members looked at in turn.
///
/// An implementation has `kMembers`, is made from the tasks of a stage, and gives each `member`'s agreement.
namespace sluice {

inline constexpr Microbatch kMicrobatches = 8;

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
  /// A member waits for something that nobody tells of.
  [[nodiscard]] bool under_way() {
    for (std::uint32_t member = 0; member < kMembers; ++member) {
      if (group_.member(member).next_deadline() == kAnyTime) return true;
    }
    return false;
  }
  /// The members' next decision: all the same, or all without.
  [[nodiscard]] std::optional<Task> decide(PassMask allowed = kAllPasses) {
    constexpr int kRounds = 6;
    std::vector<std::optional<Task>> decisions(kMembers);
    const Time until = longest_wait();
    for (int round = 0; round < kRounds; round = under_way() ? 0 : round + 1) {
      for (std::uint32_t member = 0; member < kMembers; ++member) {
        if (!decisions[member]) decisions[member] = poll(member, allowed);
      }
      if (host::SteadyClock().now() > until) throw StallError("what is under way does not end");
    }
    for (const auto& decision : decisions) EXPECT_EQ(decision, decisions[0]);
    return decisions[0];
  }

  [[nodiscard]] static Time longest_wait() { return host::SteadyClock().now() + std::chrono::seconds(60); }

  Pipeline pipeline_ = Pipeline::chain(2, kMicrobatches, true);
  StageTasks tasks_{pipeline_, 0};
  std::vector<Arbiter> arbiters_;
  Implementation group_{tasks_};
};

TYPED_TEST_SUITE_P(AgreementConformance);

TYPED_TEST_P(AgreementConformance, DecidesNothingWhileNothingIsRunnable) {
  EXPECT_EQ(this->decide(), std::nullopt);
  this->group_.member(0).announce({});
  EXPECT_EQ(this->decide(), std::nullopt);
}

TYPED_TEST_P(AgreementConformance, DecidesATaskThatIsRunnableAndAllowed) {
  this->make_runnable({3, 0, Pass::Forward});
  EXPECT_EQ(this->decide(mask_of(Pass::Backward)), std::nullopt);
  EXPECT_EQ(this->decide(kAllPasses), (Task{3, 0, Pass::Forward}));
}

TYPED_TEST_P(AgreementConformance, DoesNotDecideWhatCeasedToBeRunnable) {
  const Task task{3, 0, Pass::Forward};
  this->make_runnable(task);
  this->change(this->kMembers - 1, task, false);
  EXPECT_EQ(this->decide(), std::nullopt);
}

TYPED_TEST_P(AgreementConformance, DecidesWhatIsRunnableOnEveryMember) {
  const Task task{3, 0, Pass::Forward};
  for (std::uint32_t member = 0; member < this->kMembers; ++member) {
    EXPECT_EQ(this->decide(), std::nullopt);
    this->change(member, task, true);
  }
  EXPECT_EQ(this->decide(), task);
}

TYPED_TEST_P(AgreementConformance, DecidesEveryTaskOnceInTheArbitersOrder) {
  for (Microbatch m = kMicrobatches; m-- > 0;) this->make_runnable({m, 0, Pass::Forward});
  std::vector<Microbatch> decided;
  while (const auto task = this->decide()) decided.push_back(task->microbatch);
  EXPECT_EQ(decided, (std::vector<Microbatch>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TYPED_TEST_P(AgreementConformance, AskingInVainChangesNothing) {
  this->make_runnable({0, 0, Pass::Forward});
  this->make_runnable({1, 0, Pass::Backward});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(this->decide(mask_of(Pass::WeightGrad)), std::nullopt);
  EXPECT_EQ(this->decide(kAllPasses), (Task{1, 0, Pass::Backward}));
}

TYPED_TEST_P(AgreementConformance, RoundsAdvanceWithDecisionsAlone) {
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

TYPED_TEST_P(AgreementConformance, BeginForgetsWhatWasRunnable) {
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
TYPED_TEST_P(AgreementConformance, AllMembersRunOneSequence) {
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
    // Those that wait for something under way do not count.
    constexpr int kMostSteps = 20'000;
    const Time until = this->longest_wait();
    int counted = 0;
    for (std::uint64_t step = 0; counted < kMostSteps && !all_ran(); ++step) {
      if (!this->under_way()) ++counted;
      if (host::SteadyClock().now() > until) break;
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

REGISTER_TYPED_TEST_SUITE_P(AgreementConformance, DecidesNothingWhileNothingIsRunnable,
                            DecidesATaskThatIsRunnableAndAllowed, DoesNotDecideWhatCeasedToBeRunnable,
                            DecidesWhatIsRunnableOnEveryMember, DecidesEveryTaskOnceInTheArbitersOrder,
                            AskingInVainChangesNothing, RoundsAdvanceWithDecisionsAlone,
                            BeginForgetsWhatWasRunnable, AllMembersRunOneSequence);

}  // namespace sluice
