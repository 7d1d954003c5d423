#include "sluice/schedule_csv.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "sluice/error.hpp"
#include "sluice/hint.hpp"
#include "tasks.hpp"

namespace sluice::test {
namespace {

Tasks order_of(const Schedule& schedule, StageId stage) {
  return {schedule.order(stage).begin(), schedule.order(stage).end()};
}

std::string refusal(std::string_view text) {
  try {
    (void)parse_schedule_csv(text, "mine");
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "schedule");
    return error.what();
  }
  return "accepted";
}

TEST(ScheduleCsv, ReadsRanksChunksAndBubbles) {
  const ScheduleFile file = parse_schedule_csv("0F0,0F1,,,0B0,0B1\r\n,1F0,1B0,1F1,1B1,\r\n", "mine");
  EXPECT_EQ(file.schedule.name(), "mine");
  EXPECT_EQ(file.placement, (std::vector<StageId>{0, 1}));
  EXPECT_EQ(file.chunks(), 2U);
  EXPECT_EQ(file.microbatches, 2U);
  EXPECT_EQ(order_of(file.schedule, 0), (Tasks{forward(0), forward(1), backward(0), backward(1)}));
  EXPECT_EQ(order_of(file.schedule, 1),
            (Tasks{forward(0, 1), backward(0, 1), forward(1, 1), backward(1, 1)}));
  EXPECT_EQ(file.columns[0], (std::vector<std::uint32_t>{1, 2, 5, 6}));
  EXPECT_EQ(file.columns[1], (std::vector<std::uint32_t>{2, 3, 4, 5}));
  EXPECT_NO_THROW(file.schedule.validate(file.pipeline()));
}

TEST(ScheduleCsv, TellsWholeBackwardsFromSplitOnes) {
  const ScheduleFile file = parse_schedule_csv("0F0,0F1,0I0,0B1,0W0", "mine");
  EXPECT_EQ(order_of(file.schedule, 0),
            (Tasks{forward(0), forward(1), backward(0), backward(1), weight_grad(0)}));
  EXPECT_EQ(to_csv(file.schedule), "0F0,0F1,0I0,0B1,0W0\n");
}

TEST(ScheduleCsv, ChunksLiveOnTheRankOfTheirLine) {
  const ScheduleFile file = parse_schedule_csv("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n", "v");
  EXPECT_EQ(file.placement, (std::vector<StageId>{0, 1, 1, 0}));
  const Pipeline pipeline = file.pipeline();
  EXPECT_EQ(pipeline.stages(), 2U);
  EXPECT_EQ(pipeline.chunks(), 4U);
  EXPECT_EQ(pipeline.edges().size(), 3U);
  EXPECT_TRUE(pipeline.splittable(3));
  EXPECT_NO_THROW(file.schedule.validate(pipeline));
}

TEST(ScheduleCsv, OverlappedActionsRunInTheOrderWritten) {
  const ScheduleFile file = parse_schedule_csv("0F0,(0F1;0B0)OVERLAP_F_B,( 0B1 )OVERLAP_F_B", "mine");
  EXPECT_EQ(order_of(file.schedule, 0), (Tasks{forward(0), forward(1), backward(0), backward(1)}));
  EXPECT_EQ(file.columns[0], (std::vector<std::uint32_t>{1, 2, 2, 3}));
}

TEST(ScheduleCsv, CommunicationAndShardingAreLeftOut) {
  const ScheduleFile file = parse_schedule_csv(
      "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0RESHARD\n1RECV_F0,1F0,1B0,1SEND_B0\n", "mine");
  EXPECT_EQ(order_of(file.schedule, 0), (Tasks{forward(0), backward(0)}));
  EXPECT_EQ(order_of(file.schedule, 1), (Tasks{forward(0, 1), backward(0, 1)}));
}

TEST(ScheduleCsv, SpacesQuotesAndAByteOrderMarkDoNotMatter) {
  const ScheduleFile file = parse_schedule_csv("\xef\xbb\xbf 0F0 ,\"0B0\",\t,\n\n  \n", "mine");
  EXPECT_EQ(order_of(file.schedule, 0), (Tasks{forward(0), backward(0)}));
}

TEST(ScheduleCsv, AScheduleReadIsAHint) {
  const ScheduleFile file = parse_schedule_csv("0F0,0F1,0B1,0B0\n", "mine");
  const Pipeline pipeline = file.pipeline();
  const Hint hint = Hint::from_schedule(file.schedule, pipeline, 0);
  EXPECT_EQ(hint.name(), "mine");
  EXPECT_EQ(hint.rule(), RoundRule::Priority);
  const Tasks expected = {forward(0), forward(1), backward(1), backward(0), weight_grad(1), weight_grad(0)};
  ASSERT_EQ(hint.class_size(0), expected.size());
  for (std::uint32_t rank = 0; rank < expected.size(); ++rank)
    EXPECT_EQ(hint.task(0, rank), expected[rank]) << rank;
}

TEST(ScheduleCsv, EveryNamedScheduleComesBackAsItWas) {
  for (const std::string_view name : Schedule::names()) {
    const Pipeline pipeline =
        Schedule::placement(name) == Placement::V ? Pipeline::v_shape(3, 7) : Pipeline::chain(3, 7);
    const Schedule schedule = Schedule::named(name, pipeline);
    const ScheduleFile file = parse_schedule_csv(to_csv(schedule), std::string(name));
    for (StageId stage = 0; stage < 3; ++stage)
      EXPECT_EQ(order_of(file.schedule, stage), order_of(schedule, stage)) << name;
    EXPECT_NO_THROW(file.schedule.validate(file.pipeline())) << name;
  }
}

TEST(ScheduleCsvErrors, NameLineRankAndColumn) {
  const std::string notation = " is not an action such as 0F3, 1B2, 2I0, 2W0 or (0F3;1B2)OVERLAP_F_B";
  const std::vector<std::pair<std::string, std::string>> table = {
      {"0F0,0G0", "line 1 (rank 0), column 2: '0G0'" + notation},
      {"0F0,0B0\n1F0,,1X", "line 2 (rank 1), column 3: '1X'" + notation},
      {"F0", "line 1 (rank 0), column 1: 'F0'" + notation},
      {"0F", "line 1 (rank 0), column 1: '0F'" + notation},
      {"-1F0", "line 1 (rank 0), column 1: '-1F0'" + notation},
      {"0F-1", "line 1 (rank 0), column 1: '0F-1'" + notation},
      {"0F1.5", "line 1 (rank 0), column 1: '0F1.5'" + notation},
      {"0F0 0F1", "line 1 (rank 0), column 1: '0F0 0F1'" + notation},
      {"0f0", "line 1 (rank 0), column 1: '0f0'" + notation},
      {"0SEND_X0", "line 1 (rank 0), column 1: '0SEND_X0'" + notation},
      {"(0F0;0B0)", "line 1 (rank 0), column 1: '(0F0;0B0)'" + notation},
      {"(0F0;0B0", "line 1 (rank 0), column 1: '(0F0;0B0'" + notation},
      {"(0F0;0B0)OVERLAP", "line 1 (rank 0), column 1: '(0F0;0B0)OVERLAP'" + notation},
      {"(0F0;0SEND_F0)OVERLAP_F_B", "line 1 (rank 0), column 1: '0SEND_F0'" + notation},
      {"(0F0;)OVERLAP_F_B", "line 1 (rank 0), column 1: ''" + notation},
      {"((0F0)OVERLAP_F_B)OVERLAP_F_B",
       "line 1 (rank 0), column 1: '((0F0)OVERLAP_F_B)OVERLAP_F_B'" + notation},
      {"0F\xff\xfe\n", "line 1 (rank 0), column 1: '0F\\xff\\xfe'" + notation},
      {std::string("0F0\0", 4), "line 1 (rank 0), column 1: '0F0\\x00'" + notation},
      {std::string(100, 'x'), "line 1 (rank 0), column 1: '" + std::string(40, 'x') + "...'" + notation},
      {"99999999999999999999999F0",
       "line 1 (rank 0), column 1: the stage of '99999999999999999999999F0' is more than 65534"},
      {"65535F0", "line 1 (rank 0), column 1: the stage of '65535F0' is more than 65534"},
      {"0F16777216", "line 1 (rank 0), column 1: the microbatch of '0F16777216' is more than 16777215"},
  };
  for (const auto& [text, message] : table) EXPECT_EQ(refusal(text), "schedule: " + message);
}

TEST(ScheduleCsvErrors, AChunkIsOnOneRank) {
  EXPECT_EQ(refusal("0F0,0B0\n,1F0,0F1\n"),
            "schedule: line 2 (rank 1), column 3: 0F1: stage 0 is on rank 0 already, at column 1");
  EXPECT_EQ(refusal("0F0,0B0\n2F0,2B0\n"), "schedule: stage 1 is on no rank");
}

TEST(ScheduleCsvErrors, ABackwardIsWholeOrSplit) {
  EXPECT_EQ(refusal("0F0,0I0"), "schedule: line 1 (rank 0), column 2: 0I0 is without its 0W0");
  EXPECT_EQ(refusal("0F0,0W0"), "schedule: line 1 (rank 0), column 2: 0W0 is without its input gradient");
  EXPECT_EQ(refusal("0F0,0B0,0W0"),
            "schedule: line 1 (rank 0), column 2: 0B0: the backward is whole and split");
}

TEST(ScheduleCsvErrors, EmptyFilesAndRanks) {
  EXPECT_EQ(refusal(""), "schedule: the file holds no rank");
  EXPECT_EQ(refusal(" \n\n"), "schedule: the file holds no rank");
  EXPECT_EQ(refusal("0F0,0B0\n\n1F0,1B0\n"), "schedule: line 2 (rank 1), column 1: no action that computes");
  EXPECT_EQ(refusal("0SEND_F0"), "schedule: line 1 (rank 0), column 1: no action that computes");
}

TEST(ScheduleCsvErrors, LargeNumbersInASmallFileAreRefusedBeforeAnythingIsAsLarge) {
  EXPECT_EQ(refusal("0F0,65534F0"),
            "schedule: line 1 (rank 0), column 2: 65534F0 is one of 65535 stages and 1 microbatches, but the "
            "file has only 2 actions");
  EXPECT_EQ(refusal("0F0,0B16777215"),
            "schedule: line 1 (rank 0), column 2: 0B16777215 is one of 1 stages and 16777216 microbatches, "
            "but the file has only 2 actions");
  EXPECT_EQ(refusal("0F9999,9999F0").substr(0, 43), "schedule: line 1 (rank 0), column 2: 9999F0");
}

TEST(ScheduleCsv, ReadsThousandsOfColumns) {
  std::string text;
  for (const char pass : {'F', 'B'}) {
    for (int m = 0; m < 20'000; ++m) text += std::string("0") + pass + std::to_string(m) + ",,";
  }
  const ScheduleFile file = parse_schedule_csv(text, "mine");
  EXPECT_EQ(file.microbatches, 20'000U);
  EXPECT_EQ(file.columns[0].back(), 79'999U);
  EXPECT_EQ(refusal(text + "0F"),
            "schedule: line 1 (rank 0), column 80001: '0F' is not an action such as 0F3, 1B2, 2I0, 2W0 or "
            "(0F3;1B2)OVERLAP_F_B");
}

}  // namespace
}  // namespace sluice::test
