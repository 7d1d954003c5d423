#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "counting_allocator.hpp"
#include "null_seams.hpp"
#include "sluice/dispatcher.hpp"
#include "sluice/host/delayed_transport.hpp"
#include "sluice/host/emulated_executor.hpp"
#include "sluice/host/in_process_network.hpp"
#include "sluice/host/observed_executor.hpp"
#include "sluice/sim/timetable.hpp"

/// Nothing on the hot path allocates: not the dispatcher, nor the backends below it.
namespace sluice {
namespace {

using namespace std::chrono_literals;
using test::CountedAllocations;

TEST(CountingAllocator, CountsWhatIsAllocatedWhileItLives) {
  const CountedAllocations counted;
  EXPECT_EQ(counted.count(), 0U);
  const std::vector<int> allocated(100);
  EXPECT_EQ(counted.count(), 1U);
}

struct Method {
  std::string name;
  Pipeline pipeline;
  StageId stage;
  std::string hint;
  bool record;
  Rules rules{};
};

void PrintTo(const Method& method, std::ostream* out) { *out << method.name; }

std::vector<Method> methods() {
  return {
      {"Chain", Pipeline::chain(3, 200), 1, "bf", false},
      {"ChainRecorded", Pipeline::chain(3, 200), 1, "bf", true},
      {"Source", Pipeline::chain(3, 200), 0, "fb", true},
      {"Sink", Pipeline::chain(3, 200), 2, "b-priority", true},
      {"Split", Pipeline::chain(3, 200, true), 1, "bfw", true},
      {"Interleaved", Pipeline::interleaved(3, 2, 100), 1, "bf", true},
      {"InterleavedSplit", Pipeline::interleaved(3, 2, 100, true), 0, "bfw", true},
      {"VShapeWithALocalEdge", Pipeline::v_shape(3, 100, true), 2, "bfw", true},
      {"PaperRules", Pipeline::chain(3, 200, true), 1, "f-priority", true, Rules::paper()},
  };
}

class HotPath : public ::testing::TestWithParam<Method> {
 protected:
  [[nodiscard]] DispatcherConfig config() {
    DispatcherConfig config;
    config.rank = config.stage = GetParam().stage;
    config.limit = 8;
    config.rules = GetParam().rules;
    config.record_decisions = GetParam().record;
    if (GetParam().record) config.recorder = &recorder_;
    return config;
  }

  /// Allocations of two iterations' progress on null seams.
  std::uint64_t allocations(Policy policy) {
    const Pipeline& pipeline = GetParam().pipeline;
    Dispatcher dispatcher(pipeline, config(), std::move(policy), {executor_, transport_, agreement_, clock_});
    std::uint64_t total = 0;
    for (std::uint64_t index = 0; index < 2; ++index) {
      dispatcher.begin({index});
      transport_.begin(index);
      const CountedAllocations counted;
      while (!dispatcher.finished() && dispatcher.progress()) {
      }
      total += counted.count();
      EXPECT_TRUE(dispatcher.finished());
    }
    log_.assign(dispatcher.log().decisions().begin(), dispatcher.log().decisions().end());
    EXPECT_EQ(dispatcher.log().dropped(), 0U);
    EXPECT_EQ(!log_.empty(), GetParam().record);
    EXPECT_EQ(recorder_.size() > 0, GetParam().record);
    return total;
  }

  test::NullExecutor executor_;
  test::NullTransport transport_{GetParam().pipeline, GetParam().stage};
  SingleRank agreement_;
  test::StoppedClock clock_;
  std::vector<Decision> log_;
  /// Too small, so that it is overwritten too.
  Recorder recorder_{1000};
};

TEST_P(HotPath, AWholeIterationByReadinessAllocatesNothing) {
  EXPECT_EQ(
      allocations(Policy::readiness(Hint::named(GetParam().hint, GetParam().pipeline, GetParam().stage))),
      0U);
}

class RecordedHotPath : public HotPath {};

TEST_P(RecordedHotPath, AWholeReplayedIterationAllocatesNothing) {
  const Method& method = GetParam();
  allocations(Policy::readiness(Hint::named(method.hint, method.pipeline, method.stage)));
  EXPECT_EQ(allocations(Policy::replay(log_, method.pipeline, method.stage)), 0U);
}

std::string name_of(const ::testing::TestParamInfo<Method>& tested) { return tested.param.name; }
INSTANTIATE_TEST_SUITE_P(Dispatcher, HotPath, ::testing::ValuesIn(methods()), name_of);

std::vector<Method> recorded_methods() {
  std::vector<Method> recorded = methods();
  std::erase_if(recorded, [](const Method& method) { return !method.record; });
  return recorded;
}
INSTANTIATE_TEST_SUITE_P(Dispatcher, RecordedHotPath, ::testing::ValuesIn(recorded_methods()), name_of);

TEST(HotPathOfASchedule, AWholeIterationAllocatesNothing) {
  const Pipeline pipeline = Pipeline::chain(3, 200, true);
  for (const char* name : {"gpipe", "1f1b", "zb-h1"}) {
    test::NullExecutor executor;
    test::NullTransport transport(pipeline, 1);
    SingleRank agreement;
    const test::StoppedClock clock;
    DispatcherConfig config;
    config.rank = config.stage = 1;
    Dispatcher dispatcher(pipeline, config, Policy::fixed(Schedule::named(name, pipeline), pipeline, {})[1],
                          {executor, transport, agreement, clock});
    dispatcher.begin({0});
    transport.begin(0);
    const CountedAllocations counted;
    while (!dispatcher.finished() && dispatcher.progress()) {
    }
    EXPECT_EQ(counted.count(), 0U) << name;
    EXPECT_TRUE(dispatcher.finished()) << name;
  }
}

class NoWake final : public Wake {
 public:
  void notify() noexcept override {}
  void wait_until(Time /*deadline*/) override {}
};

/// All ranks of a pipeline on emulated devices and the in-process network, in this thread.
class EmulatedRanks {
 public:
  EmulatedRanks(const Pipeline& pipeline, const char* hint, const char* delays) : pipeline_(pipeline) {
    const std::vector<host::InProcessNetwork::Member> members(pipeline.stages(), {nullptr, &wake_});
    network_ = std::make_unique<host::InProcessNetwork>(pipeline, members);
    for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
      ranks_.push_back(std::make_unique<Rank>(*this, stage, hint, delays));
    }
  }

  /// @return the allocations of all progress
  std::uint64_t run(const Iteration& iteration) {
    for (auto& rank : ranks_) {
      rank->observed.begin(rank->dispatcher.tasks().size() * kPasses);
      rank->dispatcher.begin(iteration);
    }
    const CountedAllocations counted;
    while (progress()) {
    }
    return counted.count();
  }
  [[nodiscard]] bool finished() const {
    for (const auto& rank : ranks_) {
      if (!rank->dispatcher.finished()) return false;
    }
    return true;
  }

 private:
  struct Rank {
    Rank(EmulatedRanks& all, StageId stage, const char* hint, const char* delays)
        : device(
              all.clock_, [](const Launch&) { return Duration(1ms); }, 2),
          observed(device),
          delayed(all.network_->endpoint(stage), all.pipeline_, stage, all.clock_,
                  host::DelayModel::parse(delays), 1, [this] { return observed.compute_average().value(); }),
          dispatcher(all.pipeline_, config(stage), Policy::readiness(Hint::named(hint, all.pipeline_, stage)),
                     {observed, delayed, agreement, all.clock_}) {}

    static DispatcherConfig config(StageId stage) {
      DispatcherConfig config;
      config.rank = config.stage = stage;
      config.limit = 6;
      config.record_decisions = true;
      return config;
    }

    host::EmulatedExecutor device;
    host::ObservedExecutor observed;
    host::DelayedTransport delayed;
    SingleRank agreement;
    Dispatcher dispatcher;
  };

  /// One look at every rank; if none has anything to do, time passes. False when nothing is left.
  bool progress() {
    bool happened = false;
    Time next = kNever;
    for (auto& rank : ranks_) {
      happened |= rank->dispatcher.progress();
      next = std::min(next, rank->dispatcher.next_deadline());
    }
    if (!happened && next != kNever) clock_.advance_to(std::max(next, clock_.now()));
    return happened || next != kNever;
  }

  const Pipeline& pipeline_;
  sim::VirtualClock clock_;
  NoWake wake_;
  std::unique_ptr<host::InProcessNetwork> network_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

TEST(HotPathOfTheBackends, WholeIterationsOfAllRanksAllocateNothing) {
  for (const char* delays : {"j0", "j3", "tail:0.5,10"}) {
    const Pipeline pipeline = Pipeline::chain(4, 50, true);
    EmulatedRanks ranks(pipeline, "bfw", delays);
    for (std::uint64_t index = 0; index < 3; ++index) EXPECT_EQ(ranks.run({index}), 0U) << delays;
    EXPECT_TRUE(ranks.finished());
  }
}

TEST(HotPathOfTheBackends, AlsoWithChunksThatAreNeighboursOnOneStage) {
  const Pipeline pipeline = Pipeline::v_shape(3, 40);
  EmulatedRanks ranks(pipeline, "bf", "tail:0.5,10");
  for (std::uint64_t index = 0; index < 3; ++index) EXPECT_EQ(ranks.run({index}), 0U);
  EXPECT_EQ(ranks.run({3, IterationKind::ForwardOnly}), 0U);
  EXPECT_TRUE(ranks.finished());
}

}  // namespace
}  // namespace sluice
