#include "report/trace_summary.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "option/trace_input.hpp"
#include "report/trace_difference.hpp"
#include "run/last_draw.hpp"

namespace sluice::tools {
namespace {

/// The same draw under 1F1B and BF.
trace::Recording recorded() {
  sim::Scenario scenario(Pipeline::chain(3, 6));
  for (auto& times : scenario.times) times = host::DurationModel({10e6, 20e6, 10e6}, 0.3);
  for (sim::Link& link : scenario.links) link.jitter = host::DelayModel::parse("tail:0.5,20");
  std::vector<Method> methods;
  for (const char* name : {"1f1b", "bf"})
    methods.emplace_back(name, scenario.pipeline, method_settings(scenario));
  LastDraw last(scenario, methods, 1, {.recordings = true});
  SimulationSettings settings;
  last.watch(settings);
  (void)simulate_methods(scenario, methods, settings);
  return {"{}", last.recordings()};
}

TEST(TraceSummary, ThePartsOfEveryStageAddUp) {
  const trace::Recording recording = recorded();
  const nlohmann::json summary = TraceSummary(recording, recording.runs[0]).to_json();
  EXPECT_EQ(summary["method"], "1f1b");
  ASSERT_EQ(summary["per_stage"].size(), 3U);
  for (const nlohmann::json& stage : summary["per_stage"]) {
    double sum = 0;
    for (const char* part :
         {"compute_s", "messages_s", "limit_s", "order_s", "agreement_s", "start_s", "idle_s"})
      sum += stage[part].get<double>();
    EXPECT_NEAR(sum, total_seconds(recording.runs[0]), 1e-9);
  }
  EXPECT_EQ(summary["edges"].size(), 4U);
}

TEST(TraceDifference, ThePartsAddUpToTheDifference) {
  const trace::Recording recording = recorded();
  const trace::RunDiff diff = trace::diff_runs(recording.runs[0], recording.runs[1]);
  const Pipeline& pipeline = recording.runs[0].pipeline;
  const std::vector<DiffPart> parts = parts_of(diff, pipeline);
  double sum = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    sum += parts[i].b_s - parts[i].a_s;
    if (i == 0) continue;
    EXPECT_GE(std::abs(parts[i - 1].b_s - parts[i - 1].a_s), std::abs(parts[i].b_s - parts[i].a_s));
  }
  const nlohmann::json json = diff_json(diff, parts, pipeline);
  EXPECT_NEAR(sum, json["difference_s"].get<double>(), 1e-9);
  EXPECT_NE(sum, 0);
  EXPECT_EQ(json["parts"].size(), parts.size());
}

}  // namespace
}  // namespace sluice::tools
