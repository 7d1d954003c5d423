#include "run/slot_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "recorded_world.hpp"
#include "run/replay.hpp"
#include "sluice/error.hpp"

namespace sluice::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using trace::RecordedRun;

constexpr std::uint32_t kLimit = 3;

RecordedRun recorded(Rules rules = {}) {
  test::RecordedWorld world{Pipeline::chain(3, 8)};
  world.limit = kLimit;
  world.rules = rules;
  world.iterations = 2;
  return world.record();
}

std::string refusal(const RecordedRun& run) {
  try {
    check_replayable(run);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing was refused";
}

/// A decision of this pass on the first stage.
Decision& nth(RecordedRun& run, Pass pass, std::size_t number) {
  for (Decision& each : run.decisions[0]) {
    if (each.task.pass == pass && number-- == 0) return each;
  }
  throw Error("no such decision");
}

TEST(SlotCheck, WhatRanFits) {
  EXPECT_NO_THROW(check_replayable(recorded()));
  EXPECT_NO_THROW(check_replayable(recorded(Rules::paper())));
  test::RecordedWorld split{Pipeline::chain(3, 8, true)};
  split.method = "bfw";
  split.limit = kLimit;
  EXPECT_NO_THROW(check_replayable(split.record()));
  split.rules.hold_until_weight_grad = false;
  EXPECT_NO_THROW(check_replayable(split.record()));
  test::RecordedWorld chunks{Pipeline::interleaved(2, 2, 8)};
  chunks.limit = 4;
  EXPECT_NO_THROW(check_replayable(chunks.record()));
}

TEST(SlotCheck, MoreInFlightThanTheLimitAllowsIsRefused) {
  RecordedRun run = recorded();
  run.limits[0] = kLimit - 1;
  const std::string error = refusal(run);
  EXPECT_THAT(error, StartsWith("replay: stage 0, decision 2: "));
  EXPECT_THAT(error, HasSubstr("3 microbatches in flight, the limit allows 2"));
}

TEST(SlotCheck, SeveralChunksMayHoldTheirNumberMore) {
  test::RecordedWorld world{Pipeline::interleaved(2, 2, 8)};
  world.limit = 6;
  RecordedRun run = world.record();
  run.limits.assign(2, 2);
  EXPECT_THAT(refusal(run), HasSubstr("5 microbatches in flight, the limit allows 4"));
}

TEST(SlotCheck, WhereAdmissionIsNotBoundedOnlySlotsCount) {
  RecordedRun run = recorded(Rules::paper());
  run.limits[0] = 1;
  EXPECT_NO_THROW(check_slots(run));
}

TEST(SlotCheck, AScheduleMayHoldItsPeak) {
  RecordedRun run = recorded();
  run.method = "1f1b";
  run.limits[0] = 1;
  EXPECT_NO_THROW(check_slots(run));
  nth(run, Pass::Forward, 1).slot = kLimit;
  EXPECT_THAT(refusal(run), HasSubstr("is in slot 3, the stage has 3"));
}

TEST(SlotCheck, ASlotThatIsHeldIsRefused) {
  RecordedRun run = recorded();
  nth(run, Pass::Forward, 1).slot = nth(run, Pass::Forward, 0).slot;
  const std::string error = refusal(run);
  EXPECT_THAT(error, StartsWith("replay: stage 0, decision 1: "));
  EXPECT_THAT(error, HasSubstr("which microbatch 0 of chunk 0 still holds"));
}

TEST(SlotCheck, ALaterPassInAnotherSlotIsRefused) {
  RecordedRun run = recorded();
  Decision& backward = nth(run, Pass::Backward, 0);
  backward.slot = (backward.slot + 1) % kLimit;
  EXPECT_THAT(refusal(run), HasSubstr("its forward was in"));
}

TEST(SlotCheck, ASlotThatTheStageLacksIsRefused) {
  RecordedRun run = recorded();
  nth(run, Pass::Forward, 0).slot = kNoSlot;
  EXPECT_THAT(refusal(run), HasSubstr("the stage has 3"));
}

TEST(SlotCheck, ARecordingWithGapsIsNotReplayed) {
  RecordedRun run = recorded();
  run.lost = 1;
  EXPECT_THAT(refusal(run), StartsWith("replay: the recording lost 1 events"));
}

}  // namespace
}  // namespace sluice::tools
