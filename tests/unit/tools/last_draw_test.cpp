#include "run/last_draw.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace sluice::tools {
namespace {

constexpr std::uint64_t kDraws = 3;

sim::Scenario scenario() {
  sim::Scenario made(Pipeline::chain(3, 5));
  for (auto& times : made.times) times = host::DurationModel({10e6, 20e6, 10e6}, 0.3);
  return made;
}

std::vector<Method> methods_of(const sim::Scenario& scenario) {
  return {Method("1f1b", scenario.pipeline, method_settings(scenario)),
          Method("bfw", scenario.pipeline, method_settings(scenario))};
}

std::vector<SimulatedMethod> simulate(const sim::Scenario& scenario, const std::vector<Method>& methods,
                                      LastDraw& last) {
  SimulationSettings settings;
  settings.seeds = kDraws;
  last.watch(settings);
  return simulate_methods(scenario, methods, settings);
}

double end_of(const trace::MethodTimeline& timeline) {
  double end = 0;
  for (const trace::TaskSpan& span : timeline.spans) end = std::max(end, span.end_s);
  return end;
}

TEST(LastDraw, KeepsWhatIsWantedOfTheLastDraw) {
  const sim::Scenario made = scenario();
  const std::vector<Method> methods = methods_of(made);
  LastDraw last(made, methods, kDraws, {.timelines = true, .decisions = true, .recordings = true});
  const auto figures = simulate(made, methods, last);
  const auto recordings = last.recordings();
  ASSERT_EQ(last.timelines().size(), 2U);
  ASSERT_EQ(last.decisions().size(), 2U);
  ASSERT_EQ(recordings.size(), 2U);
  for (std::size_t i = 0; i < methods.size(); ++i) {
    EXPECT_EQ(last.timelines()[i].name, methods[i].name());
    EXPECT_DOUBLE_EQ(end_of(last.timelines()[i]), figures[i].makespans.back());
    EXPECT_EQ(last.decisions()[i]["method"], methods[i].name());
    EXPECT_EQ(last.decisions()[i]["stages"].size(), 3U);
    ASSERT_EQ(recordings[i].iterations.size(), 1U);
    EXPECT_EQ(recordings[i].iterations[0].iteration.index, kDraws);
    EXPECT_EQ(recordings[i].tasks.size(), last.timelines()[i].spans.size());
    EXPECT_NO_THROW(trace::check_complete(recordings[i]));
  }
}

TEST(LastDraw, KeepsNothingElse) {
  const sim::Scenario made = scenario();
  const std::vector<Method> methods = methods_of(made);
  LastDraw last(made, methods, kDraws, {.decisions = true});
  (void)simulate(made, methods, last);
  EXPECT_TRUE(last.timelines().empty());
  EXPECT_TRUE(last.recordings().empty());
  EXPECT_EQ(last.decisions().size(), 2U);
}

TEST(LastDraw, WithoutAWishNothingIsLookedAt) {
  const sim::Scenario made = scenario();
  const std::vector<Method> methods = methods_of(made);
  LastDraw last(made, methods, kDraws, {});
  SimulationSettings settings;
  last.watch(settings);
  EXPECT_FALSE(settings.inspect);
  EXPECT_FALSE(settings.recorders);
}

}  // namespace
}  // namespace sluice::tools
