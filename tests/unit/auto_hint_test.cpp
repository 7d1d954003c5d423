#include "sluice/adapt/auto_hint.hpp"

#include <gtest/gtest.h>

#include "sluice/host/delay_model.hpp"
#include "sluice/host/duration_model.hpp"

namespace sluice::adapt {
namespace {

/// A pipeline with late messages, one iteration of which is measured.
class AutoHintTest : public testing::Test {
 protected:
  [[nodiscard]] std::vector<sim::StageSetup> setups(const Pipeline& pipeline, const std::string& hint,
                                                    std::uint32_t limit) {
    std::vector<sim::StageSetup> all;
    for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
      DispatcherConfig config;
      config.rank = config.stage = stage;
      config.limit = limit;
      all.push_back({config, Policy::readiness(Hint::named(hint, pipeline, stage))});
    }
    return all;
  }

  [[nodiscard]] sim::Surroundings surroundings(std::uint32_t chunks_per_stage) const {
    sim::Surroundings around;
    around.task_time = [this, chunks_per_stage](const Launch& launch) {
      return times.draw(1, launch.iteration, launch.task, launch.whole, chunks_per_stage);
    };
    around.message_delay = [this](const sim::Transit& transit) { return late.draw(1, transit.id, {}); };
    return around;
  }

  [[nodiscard]] Duration makespan(const Pipeline& pipeline, const std::string& hint, std::uint32_t limit) {
    const auto per_stage = static_cast<std::uint32_t>(pipeline.chunks_of(0).size());
    sim::World world(pipeline, setups(pipeline, hint, limit), surroundings(per_stage));
    return world.run({1});
  }

  /// The second iteration, under what was found after the first.
  [[nodiscard]] Duration automatic(const Pipeline& pipeline, std::uint32_t limit) {
    const auto per_stage = static_cast<std::uint32_t>(pipeline.chunks_of(0).size());
    std::vector<sim::StageSetup> all = setups(pipeline, "bfw", limit);
    std::vector<DispatcherConfig> configs;
    std::vector<Recorder> recorders;
    for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
      recorders.emplace_back(Recorder::room_for_iteration(pipeline, stage));
      configs.push_back(all[stage].config);
    }
    std::vector<Recorder*> each;
    for (Recorder& recorder : recorders) each.push_back(&recorder);
    for (StageId stage = 0; stage < pipeline.stages(); ++stage) all[stage].config.recorder = each[stage];
    sim::World world(pipeline, std::move(all), surroundings(per_stage));
    AutoHint hint(pipeline, configs);
    Measurements measured(pipeline);
    EXPECT_FALSE(hint.update(measured)) << "nothing is measured yet";
    EXPECT_EQ(hint.chosen(), "bfw");
    (void)world.run({0});
    measured.add(each);
    (void)hint.update(measured);
    EXPECT_FALSE(hint.update(measured)) << "nothing has changed";
    for (StageId stage = 0; stage < pipeline.stages(); ++stage) world.rank_by(stage, hint.hints()[stage]);
    return world.run({1});
  }

  host::DurationModel times = host::DurationModel::parse("f=10ms,b=20ms,w=10ms,sigma=0.1");
  host::DelayModel late = host::DelayModel::parse("tail:0.3,10");
};

TEST_F(AutoHintTest, IsAsGoodAsTheBestNamedHintWithinOnePercent) {
  for (const Pipeline& pipeline :
       {Pipeline::chain(6, 40), Pipeline::interleaved(4, 2, 24), Pipeline::v_shape(3, 24)}) {
    for (const std::uint32_t limit : {8U, 64U}) {
      const Duration found = automatic(pipeline.with_split(true), limit);
      for (const std::string_view name : Hint::names()) {
        const Duration other =
            makespan(pipeline.with_split(name == "bfw" || name == "pace"), std::string(name), limit);
        EXPECT_LE(static_cast<double>(found.count()), 1.01 * static_cast<double>(other.count()))
            << name << ", " << pipeline.chunks() << " chunks, limit " << limit;
      }
    }
  }
}

TEST_F(AutoHintTest, BeatsThePublishedHintsWhereSeveralChunksShareATightLimit) {
  late = host::DelayModel::parse("tail:0.1,40");
  const Pipeline pipeline = Pipeline::v_shape(8, 64);
  Duration best = Duration::max();
  for (const char* name : {"bf", "fb", "b-priority", "f-priority", "bfw"})
    best = std::min(best, makespan(pipeline.with_split(std::string(name) == "bfw"), name, 16));
  EXPECT_LE(1.05 * static_cast<double>(automatic(pipeline.with_split(true), 16).count()),
            static_cast<double>(best.count()));
}

TEST_F(AutoHintTest, GivesEveryStageAHintOfAllItsTasks) {
  const Pipeline pipeline = Pipeline::interleaved(2, 2, 4, true);
  std::vector<DispatcherConfig> configs(2);
  configs[1].stage = configs[1].rank = 1;
  const AutoHint hint(pipeline, configs);
  ASSERT_EQ(hint.hints().size(), 2U);
  for (const Hint& each : hint.hints())
    EXPECT_EQ(each.class_size(0) + each.class_size(1) + each.class_size(2), 2U * 4U * kPasses);
}

}  // namespace
}  // namespace sluice::adapt
