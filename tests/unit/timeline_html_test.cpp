#include "sluice/trace/timeline_html.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "sluice/error.hpp"

namespace sluice::trace {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

std::vector<MethodTimeline> two_methods() {
  return {{"1f1b",
           2,
           {{{0, 0, Pass::Forward}, 4, 0, false, 0.1, 0.30000000000000004},
            {{0, 1, Pass::Forward}, 4, 1, false, 0.3, 0.5},
            {{0, 1, Pass::Backward}, 4, 1, true, 0.5, 0.9}}},
          {"bfw",
           2,
           {{{65535, 1, Pass::Backward}, 4, 1, false, 1e-9, 2.5},
            {{65535, 1, Pass::WeightGrad}, 5, 1, false, 3, 3.25}}}};
}

std::string embedded_text(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"timeline-data\">";
  const std::size_t begin = page.find(open);
  EXPECT_NE(begin, std::string::npos);
  const std::size_t end = page.find("</script>", begin);
  return page.substr(begin + open.size(), end - begin - open.size());
}

Pass pass_of(const std::string& text) {
  return text == "F" ? Pass::Forward : text == "B" ? Pass::Backward : Pass::WeightGrad;
}

TaskSpan read_span(const json& columns, const json& values) {
  const auto at = [&](const char* name) {
    const auto found = std::find(columns.begin(), columns.end(), name);
    return values.at(static_cast<std::size_t>(found - columns.begin()));
  };
  return {
      {at("microbatch").get<Microbatch>(), at("chunk").get<Chunk>(), pass_of(at("pass").get<std::string>())},
      at("iteration").get<std::uint64_t>(),
      at("stage").get<std::uint32_t>(),
      at("whole").get<bool>(),
      at("start_s").get<double>(),
      at("end_s").get<double>()};
}

TEST(TimelineHtml, EmbedsExactlyWhatWasRecorded) {
  const auto methods = two_methods();
  const json data = json::parse(embedded_text(timeline_html(methods)));
  ASSERT_EQ(data["methods"].size(), 2U);
  for (std::size_t i = 0; i < methods.size(); ++i) {
    const json& method = data["methods"][i];
    EXPECT_EQ(method["name"], methods[i].name);
    EXPECT_EQ(method["stages"], methods[i].stages);
    std::vector<TaskSpan> spans;
    for (const json& values : method["spans"]) spans.push_back(read_span(data["columns"], values));
    EXPECT_EQ(spans, methods[i].spans);
  }
}

TEST(TimelineHtml, EmbedsTheSummaryOfEachIteration) {
  const json data = json::parse(embedded_text(timeline_html(two_methods())));
  const json& iterations = data["methods"][1]["iterations"];
  ASSERT_EQ(iterations.size(), 2U);
  EXPECT_EQ(iterations[0]["iteration"], 4);
  EXPECT_EQ(iterations[1]["iteration"], 5);
  EXPECT_EQ(iterations[1]["start_s"], 3.0);
  EXPECT_EQ(iterations[1]["makespan_s"], 0.25);
  EXPECT_EQ(iterations[1]["bubble_share"], 0.5);
}

TEST(TimelineHtml, LoadsNothingFromElsewhere) {
  const std::string page = timeline_html(two_methods());
  for (const char* reference : {"http:", "https:", "src=", "href=", "@import", "url(", "fetch(", "import("}) {
    EXPECT_THAT(page, Not(HasSubstr(reference)));
  }
}

TEST(TimelineHtml, NamesCannotLeaveTheDataElement) {
  for (const std::string name :
       {"</script><script>alert(1)</script>", "<!--<script>", "a\"b\\c\n", "\xe2\x80\xa8\xc3\xa9"}) {
    const std::string page = timeline_html(std::vector<MethodTimeline>{{name, 1, {}}});
    const std::string text = embedded_text(page);
    EXPECT_EQ(text.find('<'), std::string::npos) << name;
    EXPECT_EQ(json::parse(text)["methods"][0]["name"], name);
    EXPECT_THAT(page, Not(HasSubstr("alert(1)</script>")));
  }
}

TEST(TimelineHtml, InvalidUtf8InANameIsReplaced) {
  const std::string page =
      timeline_html(std::vector<MethodTimeline>{{"a\xff"
                                                 "b",
                                                 1,
                                                 {}}});
  EXPECT_EQ(json::parse(embedded_text(page))["methods"][0]["name"],
            "a\xef\xbf\xbd"
            "b");
}

TEST(TimelineHtml, NoMethodsMakeAValidPage) {
  const std::string page = timeline_html({});
  EXPECT_THAT(page, testing::StartsWith("<!doctype html>"));
  EXPECT_THAT(page, testing::EndsWith("</html>\n"));
  EXPECT_TRUE(json::parse(embedded_text(page))["methods"].empty());
}

TEST(TimelineHtml, RefusesImpossibleSpans) {
  const std::vector<MethodTimeline> bad = {{"m", 1, {{{0, 0, Pass::Forward}, 0, 1, false, 0, 1}}}};
  EXPECT_THROW((void)timeline_html(bad), Error);
}

}  // namespace
}  // namespace sluice::trace
