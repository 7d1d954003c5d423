#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "method/method.hpp"
#include "sluice/error.hpp"

namespace sluice::tools {
namespace {

using testing::HasSubstr;

ScheduleFile file_of(const Schedule& schedule, const Pipeline& pipeline) {
  std::vector<StageId> placement;
  for (std::uint32_t chunk = 0; chunk < pipeline.chunks(); ++chunk)
    placement.push_back(pipeline.stage_of(static_cast<Chunk>(chunk)));
  return {schedule, placement, pipeline.microbatches(), {}};
}

MethodSettings settings_for(const Pipeline& pipeline) {
  return {std::vector<std::uint32_t>(pipeline.stages(), 32), false, {}};
}

TEST(ScheduleMethod, RunsInOrder) {
  const Pipeline pipeline = Pipeline::chain(3, 6);
  const Method method =
      Method::in_order(file_of(Schedule::gpipe(pipeline), pipeline), pipeline, settings_for(pipeline));
  EXPECT_EQ(method.name(), "gpipe");
  EXPECT_EQ(method.policy(0).mode(), Mode::Fixed);
  EXPECT_FALSE(method.adapts());
}

TEST(ScheduleMethod, SplitsBackwardsWhereTheScheduleDoes) {
  const Pipeline pipeline = Pipeline::chain(3, 6);
  const Schedule schedule = Schedule::zb_h1(pipeline.with_split(true));
  const Method method = Method::ranked_by(file_of(schedule, pipeline), pipeline, settings_for(pipeline));
  EXPECT_EQ(method.name(), "hint:zb-h1");
  EXPECT_EQ(method.policy(0).mode(), Mode::Readiness);
  EXPECT_TRUE(method.pipeline().split_backward());
}

TEST(ScheduleMethod, RefusesAnotherPipeline) {
  const Pipeline pipeline = Pipeline::chain(3, 6);
  const ScheduleFile file = file_of(Schedule::gpipe(pipeline), pipeline);
  for (const Pipeline& other :
       {Pipeline::chain(3, 7), Pipeline::chain(4, 6), Pipeline::interleaved(1, 3, 6)}) {
    try {
      (void)Method::in_order(file, other, settings_for(other));
      FAIL() << "was taken for a pipeline of " << other.stages() << " stages";
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.field(), "schedule");
      EXPECT_THAT(error.what(), HasSubstr("gpipe has"));
    }
  }
}

}  // namespace
}  // namespace sluice::tools
