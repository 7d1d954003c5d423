#include "sluice/host/observed_executor.hpp"

#include <gtest/gtest.h>

#include <chrono>

#include "sluice/host/emulated_executor.hpp"
#include "sluice/sim/timetable.hpp"

namespace sluice::host {
namespace {

using namespace std::chrono_literals;

class ObservedExecutorTest : public ::testing::Test {
 protected:
  void run(Microbatch microbatch) {
    observed_.launch({{microbatch, 0, Pass::Forward}, 0, microbatch});
    clock_.advance_to(observed_.next_deadline());
    Done done;
    ASSERT_TRUE(observed_.poll(done));
    ASSERT_EQ(done.task.microbatch, microbatch);
  }

  sim::VirtualClock clock_;
  EmulatedExecutor inner_{clock_, [](const Launch&) { return 100ms; }};
  ObservedExecutor observed_{inner_};
};

TEST_F(ObservedExecutorTest, KeepsWhatRanInOrder) {
  observed_.begin(3);
  for (const Microbatch m : {2U, 0U, 1U}) run(m);
  ASSERT_EQ(observed_.ran().size(), 3U);
  EXPECT_EQ(observed_.ran()[0].task.microbatch, 2U);
  EXPECT_EQ(observed_.ran()[1].task.microbatch, 0U);
  EXPECT_EQ(observed_.ran()[2].started, Time(200ms));
  EXPECT_EQ(observed_.ran()[2].ended, Time(300ms));
}

TEST_F(ObservedExecutorTest, BeginForgets) {
  observed_.begin(2);
  run(0);
  observed_.begin(2);
  EXPECT_TRUE(observed_.ran().empty());
  run(1);
  EXPECT_EQ(observed_.ran().size(), 1U);
}

TEST_F(ObservedExecutorTest, PassesOnWhatItHasNoRoomToKeep) {
  run(0);
  EXPECT_LE(observed_.ran().size(), 1U);
  EXPECT_EQ(observed_.compute_average().value(), 10ms);
}

TEST_F(ObservedExecutorTest, AveragesComputeTimesAcrossIterations) {
  observed_.begin(1);
  run(0);
  EXPECT_EQ(observed_.compute_average().value(), 10ms);
  observed_.begin(1);
  run(0);
  EXPECT_EQ(observed_.compute_average().value(), 19ms);
}

/// An executor that is full, has a deadline of its own and has failed.
class Failing final : public Executor {
 public:
  [[nodiscard]] std::uint32_t room(Lane lane) const override { return lane == Lane::Reduction ? 7 : 0; }
  void launch(const Launch& /*launch*/) override {}
  bool poll(Done& done) override {
    done = {{}, 3, 1ns, 2ns, Status::Failed, true};
    return true;
  }
  [[nodiscard]] Time next_deadline() const override { return Time(5); }
  [[nodiscard]] std::string failure() const override { return "it broke"; }
};

TEST(ObservedExecutor, ChangesNothing) {
  Failing failing;
  ObservedExecutor observed(failing);
  EXPECT_EQ(observed.room(Lane::Compute), 0U);
  EXPECT_EQ(observed.room(Lane::Reduction), 7U);
  EXPECT_EQ(observed.next_deadline(), Time(5));
  EXPECT_EQ(observed.failure(), "it broke");
  Done done;
  ASSERT_TRUE(observed.poll(done));
  EXPECT_EQ(done.status, Status::Failed);
  EXPECT_EQ(done.slot, 3U);
  EXPECT_TRUE(done.whole);
}

}  // namespace
}  // namespace sluice::host
