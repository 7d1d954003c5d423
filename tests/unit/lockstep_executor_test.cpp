#include "sluice/host/lockstep_executor.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <vector>

#include "sluice/error.hpp"
#include "sluice/host/in_process_group.hpp"
#include "sluice/sim/timetable.hpp"

namespace sluice::host {
namespace {

using namespace std::chrono_literals;

Launch forward(Microbatch microbatch) { return {{microbatch, 0, Pass::Forward}, 0, microbatch}; }

class LockstepTest : public ::testing::Test {
 protected:
  void make(std::uint32_t depth, Duration lead = EmulatedExecutor::kAnyLead) {
    for (std::uint32_t member = 0; member < 2; ++member) {
      ranks_[member] = std::make_unique<LockstepExecutor>(
          clock_, group_.channel(member), [](const Launch&) { return 10ms; }, depth, lead);
    }
  }

  sim::VirtualClock clock_;
  InProcessGroup group_{{nullptr, nullptr}, {LockstepExecutor::kLongestMessage, 8}};
  std::array<std::unique_ptr<LockstepExecutor>, 2> ranks_;
  Done done_;
};

TEST_F(LockstepTest, ATaskStartsWhenTheLastRankLaunchesIt) {
  make(1);
  ranks_[0]->launch(forward(3));
  EXPECT_EQ(ranks_[0]->room(Lane::Compute), 0U);
  EXPECT_FALSE(ranks_[0]->poll(done_));
  EXPECT_EQ(ranks_[0]->next_deadline(), kNever);
  clock_.advance_to(4ms);
  ranks_[1]->launch(forward(3));
  for (auto& rank : ranks_) {
    EXPECT_FALSE(rank->poll(done_));
    EXPECT_EQ(rank->next_deadline(), 14ms);
  }
  clock_.advance_to(14ms);
  for (auto& rank : ranks_) {
    ASSERT_TRUE(rank->poll(done_));
    EXPECT_EQ(done_.task, forward(3).task);
    EXPECT_EQ(done_.started, 4ms);
    EXPECT_EQ(done_.ended, 14ms);
    EXPECT_EQ(rank->room(Lane::Compute), 1U);
  }
}

TEST_F(LockstepTest, ARankMayBeAheadByAsManyTasksAsItHolds) {
  make(2);
  for (Microbatch m = 0; m < 2; ++m) {
    for (auto& rank : ranks_) rank->launch(forward(m));
  }
  clock_.advance_to(20ms);
  while (ranks_[0]->poll(done_)) {
  }
  for (Microbatch m = 2; m < 4; ++m) ranks_[0]->launch(forward(m));
  std::vector<Microbatch> ended;
  while (ranks_[1]->poll(done_)) ended.push_back(done_.task.microbatch);
  EXPECT_EQ(ended, (std::vector<Microbatch>{0, 1}));
  for (Microbatch m = 2; m < 4; ++m) ranks_[1]->launch(forward(m));
  clock_.advance_to(30ms);
  ASSERT_TRUE(ranks_[1]->poll(done_));
  EXPECT_EQ(done_.task.microbatch, 2U);
}

TEST_F(LockstepTest, RefusesDifferentTasksNamingThem) {
  make(1);
  ranks_[0]->launch(forward(1));
  try {
    ranks_[1]->launch(forward(2));
    FAIL() << "their collectives would never meet";
  } catch (const ProtocolError& error) {
    EXPECT_NE(std::string(error.what()).find(to_string(forward(1).task)), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(to_string(forward(2).task)), std::string::npos) << error.what();
  }
}

TEST_F(LockstepTest, TakesTheNextTaskOnlyWithinTheLead) {
  make(2, 1ms);
  for (auto& rank : ranks_) rank->launch(forward(0));
  for (auto& rank : ranks_) EXPECT_FALSE(rank->poll(done_));
  EXPECT_EQ(ranks_[0]->room(Lane::Compute), 0U);
  EXPECT_EQ(ranks_[0]->next_deadline(), 9ms);
  clock_.advance_to(9ms);
  EXPECT_EQ(ranks_[0]->room(Lane::Compute), 1U);
  EXPECT_EQ(ranks_[0]->next_deadline(), 10ms);
}

TEST_F(LockstepTest, RefusesMessagesThatCannotBe) {
  make(1);
  const std::array<std::byte, 3> noise{};
  group_.channel(1).send(0, noise);
  EXPECT_THROW(ranks_[0]->poll(done_), ProtocolError);
}

TEST_F(LockstepTest, HoldsAtLeastOneTask) { EXPECT_THROW(make(0), ConfigError); }

}  // namespace
}  // namespace sluice::host
