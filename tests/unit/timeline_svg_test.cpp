#include "sluice/trace/timeline_svg.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include "sluice/error.hpp"

namespace sluice::trace {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr auto kForward = Pass::Forward;
constexpr auto kBackward = Pass::Backward;
constexpr auto kWeightGrad = Pass::WeightGrad;

/// Two methods that both ran iteration 4; each ran one more that the other did not.
std::vector<MethodTimeline> two_methods() {
  return {{"1f1b",
           2,
           {{{0, 0, kForward}, 4, 0, false, 0.1, 0.2},
            {{0, 1, kForward}, 4, 1, false, 0.2, 0.3},
            {{0, 1, kBackward}, 4, 1, true, 0.3, 0.5},
            {{9, 0, kForward}, 3, 0, false, 0, 0.05}}},
          {"bfw",
           2,
           {{{0, 1, kBackward}, 4, 1, false, 7, 7.1},
            {{0, 1, kWeightGrad}, 4, 1, false, 7.1, 7.2},
            {{0, 0, kForward}, 5, 0, false, 8, 9}}}};
}

/// What keeps the text from being a document of properly nested elements; empty if nothing does.
std::string malformation(const std::string& text) {
  static const std::regex kMarkup(
      R"(<(/?)([A-Za-z]+)((?: [A-Za-z-]+="[^"<]*")*)(/?)>|&(?:amp|lt|gt|quot);|[<&])");
  std::vector<std::string> open;
  std::size_t roots = 0;
  for (std::sregex_iterator next(text.begin(), text.end(), kMarkup), end; next != end; ++next) {
    const std::smatch& match = *next;
    if (match.str().size() == 1) return "stray markup at " + std::to_string(match.position());
    if (match.str().front() == '&') continue;
    if (match[1].length() > 0) {
      if (open.empty() || open.back() != match[2]) return "unexpected " + match.str();
      open.pop_back();
    } else {
      if (open.empty()) ++roots;
      if (match[4].length() == 0) open.push_back(match[2]);
    }
  }
  if (!open.empty()) return "unclosed " + open.back();
  return roots == 1 ? "" : std::to_string(roots) + " roots";
}

struct Bar {
  double start = 0;
  double length = 0;
};

/// The bars of one class, in the order of the document.
std::vector<Bar> bars(const std::string& svg, const std::string& kind) {
  const std::regex path("<path class=\"" + kind + "\" d=\"([^\"]*)\"/>");
  static const std::regex kBar("M([0-9.]+) 0h([0-9.]+)");
  std::vector<Bar> found;
  for (std::sregex_iterator next(svg.begin(), svg.end(), path), end; next != end; ++next) {
    const std::string data = (*next)[1];
    for (std::sregex_iterator bar(data.begin(), data.end(), kBar); bar != end; ++bar) {
      found.push_back({std::stod((*bar)[1]), std::stod((*bar)[2])});
    }
  }
  return found;
}

std::size_t count(const std::string& svg, const std::string& kind) { return bars(svg, kind).size(); }

TEST(TimelineSvg, DrawsEveryTaskOfTheLastIterationThatMostMethodsRan) {
  const std::string svg = timeline_svg(two_methods());
  EXPECT_EQ(malformation(svg), "");
  EXPECT_THAT(svg, HasSubstr(">iteration 4<"));
  EXPECT_EQ(count(svg, "f"), 2U);
  EXPECT_EQ(count(svg, "b"), 1U);
  EXPECT_EQ(count(svg, "i"), 1U);
  EXPECT_EQ(count(svg, "w"), 1U);
}

TEST(TimelineSvg, MethodsShareATimeAxisFromTheirOwnFirstTask) {
  const std::string svg = timeline_svg(two_methods());
  const double second = bars(svg, "b")[0].start / 0.2;
  EXPECT_NEAR(bars(svg, "f")[0].start, 0, 0.1);
  EXPECT_NEAR(bars(svg, "f")[1].start, 0.1 * second, 0.2);
  EXPECT_NEAR(bars(svg, "b")[0].length, 0.2 * second, 1.2);
  EXPECT_NEAR(bars(svg, "i")[0].start, 0, 0.1);
  EXPECT_NEAR(bars(svg, "w")[0].start, 0.1 * second, 0.2);
  EXPECT_THAT(svg, HasSubstr(">0 ms<"));
  EXPECT_THAT(svg, HasSubstr(">400 ms<"));
}

TEST(TimelineSvg, ShowsNameMakespanAndBubbleOfEachMethod) {
  const std::string svg = timeline_svg(two_methods());
  EXPECT_THAT(svg, HasSubstr(">1f1b</text>"));
  EXPECT_THAT(svg, HasSubstr("makespan <tspan>400.00 ms</tspan>"));
  EXPECT_THAT(svg, HasSubstr("bubble <tspan>50.0 %</tspan>"));
  EXPECT_THAT(svg, HasSubstr(">bfw</text>"));
  EXPECT_THAT(svg, HasSubstr("makespan <tspan>200.00 ms</tspan>"));
  EXPECT_THAT(svg, HasSubstr("speed-up over 1f1b <tspan>2.00\u00d7</tspan>"));
}

TEST(TimelineSvg, AnIterationThatWasAskedForIsDrawnAsFarAsItRan) {
  const std::string svg = timeline_svg(two_methods(), 5);
  EXPECT_EQ(malformation(svg), "");
  EXPECT_EQ(count(svg, "f"), 1U);
  EXPECT_EQ(count(svg, "b"), 0U);
  EXPECT_THAT(svg, HasSubstr("makespan <tspan>1.0000 s</tspan>"));
  EXPECT_THAT(svg, HasSubstr("did not run in this iteration"));
  EXPECT_THAT(timeline_svg(two_methods(), 6), HasSubstr("No task was recorded."));
}

TEST(TimelineSvg, TheLegendNamesWhatIsDrawn) {
  auto methods = two_methods();
  EXPECT_THAT(timeline_svg(methods), HasSubstr("B input gradient"));
  methods.pop_back();
  const std::string svg = timeline_svg(methods, 4);
  EXPECT_THAT(svg, HasSubstr("F forward"));
  EXPECT_THAT(svg, HasSubstr("B whole backward"));
  EXPECT_THAT(svg, Not(HasSubstr("B input gradient")));
  EXPECT_THAT(svg, Not(HasSubstr("paler")));
}

TEST(TimelineSvg, LaterChunksOfAStageArePaler) {
  std::vector<TaskSpan> spans;
  for (Chunk chunk = 1; chunk < 10; chunk += 2) {
    spans.push_back({{0, chunk, kForward}, 0, 0, false, 1.0 * chunk, chunk + 1.0});
  }
  const std::string svg = timeline_svg(std::vector<MethodTimeline>{{"m", 1, spans}});
  EXPECT_EQ(count(svg, "f"), 1U);
  EXPECT_EQ(count(svg, "f p1"), 1U);
  EXPECT_EQ(count(svg, "f p2"), 1U);
  EXPECT_EQ(count(svg, "f p3"), 2U);
  EXPECT_THAT(svg, HasSubstr("paler: later chunk of the stage"));
}

TEST(TimelineSvg, NamesAreEscapedAndShortened) {
  const std::string name = "a<b>&\"c\"\x01\xff" + std::string(100, 'x');
  const std::string svg = timeline_svg(std::vector<MethodTimeline>{{name, 1, {}}});
  EXPECT_EQ(malformation(svg), "");
  const std::string escaped = "a&lt;b&gt;&amp;&quot;c&quot;\ufffd\ufffd";
  EXPECT_THAT(svg, HasSubstr("<title>" + escaped + std::string(100, 'x') + "</title>"));
  EXPECT_THAT(svg, HasSubstr(">" + escaped + std::string(53, 'x') + "\u2026</text>"));
}

TEST(TimelineSvg, SpansMayComeInAnyOrder) {
  auto methods = two_methods();
  const std::string svg = timeline_svg(methods);
  for (MethodTimeline& method : methods) std::ranges::reverse(method.spans);
  EXPECT_EQ(timeline_svg(methods), svg);
}

TEST(TimelineSvg, LoadsAndRunsNothing) {
  const std::string svg = timeline_svg(two_methods());
  for (const char* reference : {"<script", "href=", "@import", "url(", "<image", "<foreignObject"}) {
    EXPECT_THAT(svg, Not(HasSubstr(reference)));
  }
}

TEST(TimelineSvg, NothingRecordedMakesAValidPicture) {
  for (const auto& methods : {std::vector<MethodTimeline>{}, std::vector<MethodTimeline>{{"m", 0, {}}}}) {
    const std::string svg = timeline_svg(methods);
    EXPECT_EQ(malformation(svg), "");
    EXPECT_THAT(svg, HasSubstr("No task was recorded."));
  }
}

TEST(TimelineSvg, AnInstantIsVisible) {
  const std::string svg =
      timeline_svg(std::vector<MethodTimeline>{{"m", 1, {{{0, 0, kForward}, 0, 0, false, 5, 5}}}});
  EXPECT_EQ(malformation(svg), "");
  ASSERT_EQ(count(svg, "f"), 1U);
  EXPECT_GT(bars(svg, "f")[0].length, 0);
}

TEST(TimelineSvg, LargeRunsStaySmall) {
  std::vector<MethodTimeline> methods;
  for (const char* name : {"a", "b", "c"}) {
    MethodTimeline method{name, 8, {}};
    for (std::uint32_t i = 0; i < 8 * 64 * 3; ++i) {
      const double start_s = 0.001 * (i / 8);
      const auto pass = static_cast<Pass>(i / 8 % 3);
      method.spans.push_back({{i / 24, 0, pass}, 0, i % 8, false, start_s, start_s + 0.001});
    }
    methods.push_back(std::move(method));
  }
  const std::string svg = timeline_svg(methods);
  EXPECT_EQ(count(svg, "f") + count(svg, "i") + count(svg, "w"), 3U * 8 * 64 * 3);
  EXPECT_LT(svg.size(), 100'000U);
}

TEST(TimelineSvg, RefusesImpossibleSpans) {
  const std::vector<MethodTimeline> bad = {{"m", 1, {{{0, 0, kForward}, 0, 1, false, 0, 1}}}};
  EXPECT_THROW((void)timeline_svg(bad), Error);
}

}  // namespace
}  // namespace sluice::trace
