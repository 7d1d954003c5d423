#include "sluice/schedule_csv.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>

#include "run_checks.hpp"
#include "scenario.hpp"
#include "sluice/error.hpp"

namespace sluice::test {
namespace {

/// A named schedule of any size, or an order that some readiness-first run took.
std::pair<Pipeline, Schedule> draw_schedule(const Draw& draw) {
  if (draw(0, 1) == 0) {
    Scenario scenario = draw_scenario(draw);
    scenario.iterations = {{0, IterationKind::Training}};
    return {scenario.pipeline, Schedule("recorded", sequences(run(scenario)))};
  }
  const auto names = Schedule::names();
  const std::string_view name = names[draw(0, static_cast<std::uint32_t>(names.size()) - 1)];
  const std::uint32_t stages = draw(1, 6);
  const Microbatch microbatches = 2 * stages + draw(0, 12);
  const Pipeline pipeline = Schedule::placement(name) == Placement::V
                                ? Pipeline::v_shape(stages, microbatches)
                                : Pipeline::chain(stages, microbatches);
  return {pipeline, Schedule::named(name, pipeline)};
}

/// Bubbles, communication and blanks that mean nothing.
std::string decorated(const Draw& draw, const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == ',') result += draw(0, 3) == 0 ? ",,0RECV_B3 , " : ",";
    if (c == '\n') result += draw(0, 1) == 0 ? ",\r\n" : "\n";
    if (c != ',' && c != '\n') result += c;
  }
  return result;
}

RC_GTEST_PROP(ScheduleCsv, WhatIsWrittenIsReadBack, ()) {
  const Draw draw = rapidcheck_draw();
  const auto [pipeline, schedule] = draw_schedule(draw);
  const std::string text = to_csv(schedule);
  for (const std::string& variant : {text, decorated(draw, text)}) {
    const ScheduleFile file = parse_schedule_csv(variant, schedule.name());
    RC_ASSERT(file.microbatches == pipeline.microbatches());
    RC_ASSERT(file.chunks() == pipeline.chunks());
    for (StageId stage = 0; stage < schedule.stages(); ++stage) {
      RC_ASSERT(std::ranges::equal(file.schedule.order(stage), schedule.order(stage)));
      for (const Chunk chunk : pipeline.chunks_of(stage)) RC_ASSERT(file.placement[chunk] == stage);
    }
    RC_ASSERT(to_csv(file.schedule) == text);
  }
}

/// Refused with a reason or read; and what is read can be checked, whatever it says.
RC_GTEST_PROP(ScheduleCsv, ADamagedFileIsReadOrRefused, ()) {
  const Draw draw = rapidcheck_draw();
  std::string text = to_csv(draw_schedule(draw).second);
  const std::string_view bytes = "0123456789FBIWSENDOVERLAP_()";
  for (std::uint32_t damage = draw(1, 4); damage > 0 && !text.empty(); --damage) {
    const std::size_t at = draw(0, static_cast<std::uint32_t>(text.size()) - 1);
    switch (draw(0, 3)) {
      case 0:
        text.resize(at);
        break;
      case 1:
        text.erase(at, draw(1, 5));
        break;
      case 2:
        text[at] = static_cast<char>(draw(0, 255));
        break;
      default:
        text.insert(at, 1, bytes[draw(0, static_cast<std::uint32_t>(bytes.size()) - 1)]);
    }
  }
  try {
    const ScheduleFile file = parse_schedule_csv(text, "damaged");
    (void)file.schedule.faults(file.pipeline());
  } catch (const ConfigError& error) {
    RC_ASSERT(std::string(error.what()).starts_with("schedule: "));
  }
}

}  // namespace
}  // namespace sluice::test
