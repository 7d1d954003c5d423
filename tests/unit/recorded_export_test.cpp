#include "sluice/trace/recorded_export.hpp"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "recorded_world.hpp"

namespace sluice::trace {
namespace {

using nlohmann::json;
using test::RecordedWorld;

RecordedRun recorded() { return RecordedWorld{Pipeline::chain(3, 4), "bf"}.record(); }

TEST(RecordedTimeline, HasEveryTask) {
  const RecordedRun run = recorded();
  const MethodTimeline timeline = timeline_of(run);
  EXPECT_EQ(timeline.name, "bf");
  EXPECT_EQ(timeline.stages, 3U);
  ASSERT_EQ(timeline.spans.size(), run.tasks.size());
  EXPECT_EQ(timeline.spans[5].task, run.tasks[5].task);
  EXPECT_DOUBLE_EQ(timeline.spans[5].end_s, 1e-9 * static_cast<double>(run.tasks[5].end.count()));
}

TEST(RecordedChromeTrace, ArrowsHangOnTheTasksAtTheirEnds) {
  const RecordedRun run = recorded();
  const json events = json::parse(chrome_trace(std::span(&run, 1)))["traceEvents"];
  std::map<std::string, int> starts;
  std::map<std::string, int> ends;
  for (const json& each : events) {
    if (each["ph"] != "s" && each["ph"] != "f") continue;
    ++(each["ph"] == "s" ? starts : ends)[each["id"].get<std::string>()];
    bool inside = false;
    for (const json& task : events) {
      if (task["ph"] != "X" || task["tid"] != each["tid"] || task["pid"] != each["pid"]) continue;
      const double begin = task["ts"].get<double>();
      const double at = each["ts"].get<double>();
      inside |= at >= begin - 1e-9 && at <= begin + task["dur"].get<double>() + 1e-9;
    }
    EXPECT_TRUE(inside) << each;
  }
  EXPECT_EQ(starts.size(), run.messages.size());
  EXPECT_EQ(starts, ends);
}

TEST(RecordedChromeTrace, CountersBeginAndEndWithNothingInFlight) {
  const RecordedRun run = recorded();
  std::map<std::string, std::vector<std::int64_t>> counts;
  const json events = json::parse(chrome_trace(std::span(&run, 1)))["traceEvents"];
  for (const json& each : events) {
    if (each["ph"] == "C") counts[each["name"].get<std::string>()].push_back(each["args"]["microbatches"]);
  }
  ASSERT_EQ(counts.size(), 3U);
  for (const auto& [name, values] : counts) {
    EXPECT_EQ(values.front(), 1) << name;
    EXPECT_EQ(values.back(), 0) << name;
    EXPECT_GE(*std::ranges::min_element(values), 0) << name;
    EXPECT_LE(*std::ranges::max_element(values), 4) << name;
  }
}

TEST(RecordedCsv, EveryLineHasEveryColumn) {
  RecordedRun run = recorded();
  const std::string text = recorded_csv(std::span(&run, 1));
  std::istringstream lines(text);
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    EXPECT_EQ(std::ranges::count(line, ','), 18) << line;
  EXPECT_EQ(count, 1 + run.tasks.size() + run.messages.size());
}

TEST(RecordedCsv, AMethodWithACommaIsQuoted) {
  RecordedRun run = recorded();
  run.method = R"(csv:a,"b".csv)";
  EXPECT_NE(recorded_csv(std::span(&run, 1)).find(R"(task,"csv:a,""b"".csv",1,)"), std::string::npos);
}

}  // namespace
}  // namespace sluice::trace
