#include "sluice/trace/chrome_trace.hpp"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "sluice/error.hpp"

namespace sluice::trace {
namespace {

using nlohmann::json;

json events_of(const std::vector<MethodTimeline>& methods, const std::string& kind) {
  const json trace = json::parse(chrome_trace(methods));
  json events = json::array();
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == kind) events.push_back(event);
  }
  return events;
}

TEST(ChromeTrace, ATaskIsACompleteEventInMicroseconds) {
  const json events =
      events_of({{"gpipe", 1, {}}, {"bfw", 4, {{{9, 2, Pass::Backward}, 6, 3, false, 0.5, 0.75}}}}, "X");
  ASSERT_EQ(events.size(), 1U);
  const json expected = {
      {"ph", "X"},
      {"name", "B9"},
      {"cat", "input gradient"},
      {"pid", 1},
      {"tid", 3},
      {"ts", 500'000.0},
      {"dur", 250e3},
      {"args", {{"iteration", 6}, {"pass", "B"}, {"chunk", 2}, {"microbatch", 9}, {"whole", false}}}};
  EXPECT_EQ(events[0], expected);
}

TEST(ChromeTrace, NamesProcessesAndThreads) {
  std::map<std::string, std::string> names;
  for (const json& event : events_of({{"1f1b", 2, {}}, {"b\"f", 1, {}}}, "M")) {
    if (!event.at("args").contains("name")) continue;
    const std::string key =
        event.at("name").get<std::string>() + " " + event.at("pid").dump() + " " + event.at("tid").dump();
    names[key] = event.at("args").at("name");
  }
  const std::map<std::string, std::string> expected = {{"process_name 0 0", "1f1b"},
                                                       {"thread_name 0 0", "stage 0"},
                                                       {"thread_name 0 1", "stage 1"},
                                                       {"process_name 1 0", "b\"f"},
                                                       {"thread_name 1 0", "stage 0"}};
  EXPECT_EQ(names, expected);
}

TEST(ChromeTrace, NoMethodsMakeAnEmptyTrace) {
  EXPECT_EQ(json::parse(chrome_trace({})).at("traceEvents"), json::array());
}

TEST(ChromeTrace, RefusesImpossibleSpans) {
  const std::vector<MethodTimeline> bad = {{"m", 1, {{{0, 0, Pass::Forward}, 0, 0, false, 2, 1}}}};
  EXPECT_THROW((void)chrome_trace(bad), Error);
}

}  // namespace
}  // namespace sluice::trace
