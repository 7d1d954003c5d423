#include "wake_conformance.hpp"

#include "sluice/clock.hpp"
#include "sluice/host/event_wake.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/sim/timetable.hpp"
#if SLUICE_HAVE_UCX
#include "memory_bootstrap.hpp"
#include "sluice/ucx/message_plane.hpp"
#endif

/// What every clock must do, and the wakes that need no device.
namespace sluice::conformance {
namespace {

template <typename Implementation>
class ClockConformance : public ::testing::Test {};
using Clocks = ::testing::Types<host::SteadyClock, sim::VirtualClock>;
TYPED_TEST_SUITE(ClockConformance, Clocks);

TYPED_TEST(ClockConformance, NeverGoesBackAndIsNotNever) {
  const TypeParam clock;
  Time before = clock.now();
  for (int i = 0; i < 1000; ++i) {
    const Time now = clock.now();
    EXPECT_LE(before, now);
    EXPECT_LT(now, kNever);
    before = now;
  }
}

#if SLUICE_HAVE_UCX
/// The wake of a rank without peers.
class PlaneWake final : public Wake {
 public:
  PlaneWake() : bootstrap_(place_, 0), plane_(bootstrap_, {}) {}

  void notify() noexcept override { plane_.wake().notify(); }
  void wait_until(Time deadline) override {
    plane_.wake().wait_until(deadline);
    // The worker's own events keep it awake until it has seen to them.
    plane_.progress();
  }

 private:
  test::MeetingPlace place_{1};
  test::MemoryBootstrap bootstrap_;
  ucx::MessagePlane plane_;
};

using Wakes = ::testing::Types<host::EventWake, PlaneWake>;
#else
using Wakes = ::testing::Types<host::EventWake>;
#endif
INSTANTIATE_TYPED_TEST_SUITE_P(Host, WakeConformance, Wakes);

}  // namespace
}  // namespace sluice::conformance
