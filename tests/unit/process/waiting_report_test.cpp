#include "sluice/process/waiting_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace sluice::process {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

const Pipeline kChain = Pipeline::chain(4, 32);

/// Stage 1 of four, the first of two replicas of two members each: rank 4.
const RankGrid kGrid{4, 2, 2};

Waiting waiting_of_stage_1(std::uint32_t rank) {
  Waiting waiting;
  waiting.rank = rank;
  waiting.stage = 1;
  waiting.iteration = 4;
  waiting.finished = 5;
  waiting.pairs = 32;
  waiting.in_flight = 2;
  waiting.limit = 4;
  waiting.held_by_limit = 3;
  waiting.since = 61234ms;
  waiting.launched = {{Lane::Compute, 1, {2, 1, Pass::Backward}}};
  waiting.blocked = {{{5, 1, Pass::Forward}, WaitFor::Message, FarEnd{0, Direction::Activation, 0, 0}},
                     {{3, 1, Pass::Backward}, WaitFor::Message, FarEnd{1, Direction::Gradient, 2, 2}},
                     {{6, 1, Pass::Forward}, WaitFor::Admission, std::nullopt},
                     {{1, 1, Pass::Backward}, WaitFor::Receiver, FarEnd{0, Direction::Gradient, 0, 0}}};
  waiting.ready = {{{4, 1, Pass::Backward}, WaitFor::Agreement, std::nullopt}};
  return waiting;
}

TEST(WaitingReport, IsJsonForPrograms) {
  Waiting waiting = waiting_of_stage_1(4);
  waiting.next_in_order = Task{7, 1, Pass::Forward};
  const json expected = {
      {"rank", 4},
      {"stage", 1},
      {"iteration", 4},
      {"finished", 5},
      {"pairs", 32},
      {"in_flight", 2},
      {"limit", 4},
      {"held_by_limit", 3},
      {"since_s", 61.234},
      {"next_in_order", "F7 of chunk 1"},
      {"launched", {{{"tasks", 1}, {"last", "B2 of chunk 1"}}}},
      {"waits",
       {{{"task", "F5 of chunk 1"},
         {"waits_for", "message"},
         {"needs", "activation of edge 0"},
         {"from_stage", 0},
         {"from_rank", 0},
         {"since_s", 61.234}},
        {{"task", "B3 of chunk 1"},
         {"waits_for", "message"},
         {"needs", "gradient of edge 1"},
         {"from_stage", 2},
         {"from_rank", 8},
         {"since_s", 61.234}},
        {{"task", "F6 of chunk 1"}, {"waits_for", "limit"}, {"since_s", 61.234}},
        {{"task", "B1 of chunk 1"},
         {"waits_for", "receiver"},
         {"needs", "gradient of edge 0"},
         {"to_stage", 0},
         {"to_rank", 0},
         {"since_s", 61.234}}}},
      {"ready", {{{"task", "B4 of chunk 1"}, {"waits_for", "agreement"}, {"since_s", 61.234}}}},
      {"left_out", 0},
  };
  EXPECT_EQ(json::parse(waiting_json(waiting, kGrid)), expected);
}

TEST(WaitingReport, LongListsAreCutInJson) {
  Waiting waiting = waiting_of_stage_1(4);
  waiting.blocked.resize(300, waiting.blocked[0]);
  const json report = json::parse(waiting_json(waiting, kGrid));
  EXPECT_EQ(report["waits"].size(), 256);
  EXPECT_EQ(report["left_out"], 44);
}

TEST(WaitingFor, NamesTheTasksThatWaitForTheOtherRank) {
  const RankGrid chain{4, 1, 1};
  const Waiting waiting = waiting_of_stage_1(1);
  EXPECT_EQ(waiting_for(waiting, kChain, chain, 0),
            "waiting for rank 0: F5 (activation of edge 0), B1 (to take the gradient of edge 0)");
  EXPECT_EQ(waiting_for(waiting, kChain, chain, 2), "waiting for rank 2: B3 (gradient of edge 1)");
}

TEST(WaitingFor, NamesThoseThatWaitThroughOthers) {
  const RankGrid chain{4, 1, 1};
  EXPECT_EQ(waiting_for(waiting_of_stage_1(1), kChain, chain, 3),
            "waiting for rank 3: B3 (gradient of edge 1, through rank 2)");
}

TEST(WaitingFor, OtherReplicasAreNotWaitedFor) {
  EXPECT_EQ(waiting_for(waiting_of_stage_1(4), kChain, kGrid, 6), "");
  EXPECT_EQ(waiting_for(waiting_of_stage_1(4), kChain, kGrid, 2), "");
}

TEST(WaitingFor, AMemberOfTheGroupOrOfAPeersGroup) {
  EXPECT_EQ(waiting_for(waiting_of_stage_1(4), kChain, kGrid, 5),
            "waiting for rank 5 (stage 1, replica 0, member 1): B4 (agreement)");
  EXPECT_EQ(waiting_for(waiting_of_stage_1(4), kChain, kGrid, 9),
            "waiting for rank 9 (stage 2, replica 0, member 1): B3 (gradient of edge 1, through rank 8)");
}

TEST(WaitingFor, ChunksAreNamedWhereAStageHasSeveral) {
  const Pipeline pipeline = Pipeline::interleaved(4, 2, 8);
  Waiting waiting;
  waiting.rank = waiting.stage = 1;
  waiting.blocked = {{{0, 5, Pass::Forward}, WaitFor::Message, FarEnd{4, Direction::Activation, 4, 0}}};
  EXPECT_EQ(waiting_for(waiting, pipeline, {4, 1, 1}, 0),
            "waiting for rank 0: F0 of chunk 5 (activation of edge 4)");
}

TEST(WaitingFor, ManyTasksAreCounted) {
  Waiting waiting = waiting_of_stage_1(1);
  waiting.blocked.assign(20, waiting.blocked[0]);
  const std::string text = waiting_for(waiting, kChain, {4, 1, 1}, 0);
  EXPECT_TRUE(text.ends_with("F5 (activation of edge 0) and 14 more")) << text;
}

}  // namespace
}  // namespace sluice::process
