#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "sluice/host/delay_model.hpp"
#include "sluice/host/duration_model.hpp"
#include "sluice/sim/world.hpp"

/// What readiness gains over a fixed order when both have the same memory, in virtual time: messages are
/// late with probability 0.3, by one forward on average, and a slot is held until its weight gradient ran.
namespace sluice::test {
namespace {

constexpr std::uint64_t kSeeds = 16;

using Limits = std::function<std::uint32_t(StageId)>;

struct Settings {
  Pipeline pipeline;
  Limits limit;
  std::string delays = "tail:0.3,10";
};

bool is_schedule(const std::string& method) {
  const auto names = Schedule::names();
  return std::find(names.begin(), names.end(), method) != names.end();
}

std::vector<sim::StageSetup> setups_of(const Pipeline& pipeline, const std::string& method,
                                       const Limits& limit, const Rules& rules) {
  std::vector<Policy> policies;
  if (is_schedule(method)) policies = Policy::fixed(Schedule::named(method, pipeline), pipeline, rules);
  std::vector<sim::StageSetup> setups;
  for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
    if (!is_schedule(method)) policies.push_back(Policy::readiness(Hint::named(method, pipeline, stage)));
    DispatcherConfig config;
    config.rank = config.stage = stage;
    config.limit = limit(stage);
    config.rules = rules;
    setups.push_back({config, policies[stage]});
  }
  return setups;
}

double makespan(const Settings& settings, const std::string& method, const Rules& rules, std::uint64_t seed) {
  const bool split = method == "bfw" || method == "pace";
  const Pipeline pipeline = settings.pipeline.with_split(split);
  const auto times = host::DurationModel::parse("f=10ms,b=20ms,w=10ms");
  const auto lateness = host::DelayModel::parse(settings.delays);
  const std::uint32_t chunks = pipeline.chunks() / pipeline.stages();
  sim::Surroundings surroundings;
  surroundings.task_time = [&](const Launch& launch) {
    return times.draw(seed, launch.iteration, launch.task, launch.whole, chunks);
  };
  surroundings.message_delay = [&](const sim::Transit& transit) {
    return lateness.draw(seed, transit.id, {});
  };
  sim::World world(pipeline, setups_of(pipeline, method, settings.limit, rules), surroundings);
  const Duration time = world.run({0});
  for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
    EXPECT_LE(world.report(stage).peak_in_flight, settings.limit(stage) + (chunks > 1 ? chunks : 0))
        << method << " on stage " << stage;
  }
  return static_cast<double>(time.count());
}

double median_makespan(const Settings& settings, const std::string& method, const Rules& rules = {}) {
  std::vector<double> all;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) all.push_back(makespan(settings, method, rules, seed));
  std::sort(all.begin(), all.end());
  return (all[kSeeds / 2 - 1] + all[kSeeds / 2]) / 2;
}

double speed_up(const Settings& settings, const std::string& method, const Rules& rules = {}) {
  const bool one_chunk = settings.pipeline.chunks() == settings.pipeline.stages();
  return median_makespan(settings, one_chunk ? "1f1b" : "interleaved") /
         median_makespan(settings, method, rules);
}

Settings chain(std::uint32_t stages, const Limits& limit) {
  return {Pipeline::chain(stages, 8 * stages), limit};
}

constexpr Rules kAnyOrder{.ordered_accumulation = false};

TEST(EqualMemory, ALimitOfNGivesWhatAnIndependentModelGives) {
  const Settings eight = chain(8, [](StageId) { return 8U; });
  EXPECT_GE(speed_up(eight, "bf"), 1.00);
  EXPECT_GE(speed_up(eight, "bfw", kAnyOrder), 1.24);
  EXPECT_GE(speed_up(eight, "pace"), 1.25);
  EXPECT_GE(speed_up(eight, "pace", kAnyOrder), 1.26);
  const Settings sixteen = chain(16, [](StageId) { return 16U; });
  EXPECT_GE(speed_up(sixteen, "bf"), 1.03);
  EXPECT_GE(speed_up(sixteen, "bfw", kAnyOrder), 1.31);
  EXPECT_GE(speed_up(sixteen, "pace"), 1.32);
  EXPECT_GE(speed_up(sixteen, "pace", kAnyOrder), 1.33);
}

TEST(EqualMemory, TheSlotsOf1F1BStageByStageAreEnoughForASplitBackward) {
  for (const std::uint32_t stages : {8U, 16U}) {
    const Settings by_stage = chain(stages, [stages](StageId stage) { return stages - stage; });
    EXPECT_GE(speed_up(by_stage, "bfw"), 1.15) << stages;
    EXPECT_GE(speed_up(by_stage, "pace"), 1.17) << stages;
  }
}

TEST(EqualMemory, SlotsThatDescendFromStageToStageAreWorthMoreThanAsManyEverywhere) {
  const Settings descending = chain(8, [](StageId stage) { return 12U - stage - (stage > 3 ? 1 : 0); });
  const Settings uniform = chain(8, [](StageId) { return 8U; });
  EXPECT_GE(median_makespan(uniform, "pace") / median_makespan(descending, "pace"), 1.12);
}

TEST(EqualMemory, AWeightGradThatMakesRoomNeverCostsMuch) {
  constexpr Rules without{.weight_grad_makes_room = false};
  for (const std::string method : {"bfw", "pace"}) {
    for (const std::uint32_t extra : {0U, 4U, 8U}) {
      const Settings by_stage = chain(8, [extra](StageId stage) { return 8U - stage + extra; });
      const Settings uniform = chain(8, [extra](StageId) { return 8U + extra; });
      for (const Settings& each : {by_stage, uniform}) {
        EXPECT_GE(median_makespan(each, method, without) / median_makespan(each, method), 0.99)
            << method << " " << extra;
      }
    }
  }
}

/// Limit + C is the peak of interleaved 1F1B, on its first stage or stage by stage.
Settings loop(std::uint32_t stages, std::uint32_t chunks, Microbatch microbatches, bool by_stage) {
  const Pipeline pipeline = Pipeline::interleaved(stages, chunks, microbatches);
  const Schedule schedule = Schedule::interleaved(pipeline);
  std::vector<std::uint32_t> limits;
  for (StageId stage = 0; stage < stages; ++stage)
    limits.push_back(schedule.peak_in_flight(pipeline, by_stage ? stage : StageId{0}) - chunks);
  return {pipeline, [limits](StageId stage) { return limits[stage]; }};
}

TEST(SeveralChunks, AtTheMemoryOfInterleaved1F1BAreFaster) {
  EXPECT_GE(speed_up(loop(4, 2, 32, false), "bf"), 1.05);
  EXPECT_GE(speed_up(loop(4, 2, 32, false), "pace"), 1.25);
  EXPECT_GE(speed_up(loop(8, 2, 64, false), "bf"), 1.15);
  EXPECT_GE(speed_up(loop(8, 2, 64, false), "pace"), 1.33);
  EXPECT_GE(speed_up(loop(4, 3, 36, false), "pace"), 1.40);
  EXPECT_GE(speed_up(loop(4, 2, 32, true), "pace"), 1.18);
  EXPECT_GE(speed_up(loop(8, 2, 64, true), "pace"), 1.28);
}

TEST(SeveralChunks, FinishingOneMicrobatchAfterTheOtherIsMuchSlower) {
  constexpr Rules one_at_a_time{.mixed_at_limit = false};
  for (const bool by_stage : {false, true}) {
    for (const std::string method : {"bf", "bfw", "pace"}) {
      const Settings settings = loop(8, 2, 64, by_stage);
      EXPECT_GE(median_makespan(settings, method, one_at_a_time) / median_makespan(settings, method), 1.1)
          << method << " " << by_stage;
    }
  }
}

TEST(SeveralChunks, WithoutDelaysLoseLittleToInterleaved1F1B) {
  Settings settings = loop(4, 2, 32, false);
  settings.delays = "j0";
  settings.limit = [](StageId) { return 16U; };
  EXPECT_GE(speed_up(settings, "bf"), 1.0);
  EXPECT_GE(speed_up(settings, "bfw"), 1.03);
  EXPECT_GE(speed_up(settings, "pace"), 1.03);
}

TEST(SeveralChunks, OfAVAtTheMemoryOfInterleaved1F1B) {
  const Settings settings = loop(8, 2, 64, false);
  const Settings down_and_back{Pipeline::v_shape(8, 64), settings.limit};
  EXPECT_GE(median_makespan(settings, "interleaved") / median_makespan(down_and_back, "pace"), 1.33);
}

}  // namespace
}  // namespace sluice::test
