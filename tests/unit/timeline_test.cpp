#include "sluice/trace/timeline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "sluice/error.hpp"

namespace sluice::trace {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TaskSpan span(std::uint64_t iteration, std::uint32_t stage, double start_s, double end_s) {
  return {{0, 0, Pass::Forward}, iteration, stage, false, start_s, end_s};
}

TEST(Timeline, NoSpansGiveNoIterations) { EXPECT_TRUE(summarize({"empty", 4, {}}).empty()); }

TEST(Timeline, SummarizesEachIterationOnItsOwn) {
  const auto summaries = summarize(
      {"m",
       2,
       {span(7, 1, 13, 14), span(7, 0, 12, 13), span(3, 1, 2, 5), span(3, 0, 1, 2), span(3, 0, 4, 5)}});
  ASSERT_EQ(summaries.size(), 2U);
  EXPECT_EQ(summaries[0].iteration, 3U);
  EXPECT_EQ(summaries[0].start_s, 1);
  EXPECT_EQ(summaries[0].makespan_s, 4);
  EXPECT_DOUBLE_EQ(summaries[0].bubble_share, 1 - 5.0 / 8);
  EXPECT_EQ(summaries[1].iteration, 7U);
  EXPECT_EQ(summaries[1].start_s, 12);
  EXPECT_EQ(summaries[1].makespan_s, 2);
  EXPECT_DOUBLE_EQ(summaries[1].bubble_share, 0.5);
}

TEST(Timeline, CountsAStageWithoutTasksAsIdle) {
  EXPECT_DOUBLE_EQ(summarize({"m", 4, {span(0, 2, 0, 1)}})[0].bubble_share, 0.75);
}

TEST(Timeline, CountsOverlappingLanesOnce) {
  const auto summaries =
      summarize({"m", 1, {span(0, 0, 0, 4), span(0, 0, 1, 2), span(0, 0, 3, 6), span(0, 0, 8, 10)}});
  EXPECT_DOUBLE_EQ(summaries[0].bubble_share, 0.2);
}

TEST(Timeline, AnInstantHasNoBubble) {
  EXPECT_EQ(summarize({"m", 1, {span(0, 0, 5, 5)}})[0].bubble_share, 0);
}

TEST(Timeline, RefusesImpossibleSpans) {
  const auto refusal = [](const TaskSpan& bad) -> std::string {
    try {
      (void)summarize({"bf", 2, {span(0, 0, 0, 1), bad}});
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refusal(span(0, 2, 0, 1)),
              testing::HasSubstr("timeline of bf, F(chunk 0, microbatch 0): stage 2 of 2"));
  EXPECT_THAT(refusal(span(0, 1, 2, 1)), testing::HasSubstr("ends before it starts"));
  EXPECT_THAT(refusal(span(0, 1, kNan, 1)), testing::HasSubstr("not finite"));
  EXPECT_THAT(refusal(span(0, 1, 0, kNan)), testing::HasSubstr("not finite"));
}

TEST(Timeline, DescribesTheFourKindsOfTask) {
  EXPECT_EQ(describe(Pass::Forward, false), "forward");
  EXPECT_EQ(describe(Pass::Backward, true), "backward");
  EXPECT_EQ(describe(Pass::Backward, false), "input gradient");
  EXPECT_EQ(describe(Pass::WeightGrad, false), "weight gradient");
}

}  // namespace
}  // namespace sluice::trace
