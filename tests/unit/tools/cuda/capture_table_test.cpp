#include "report/capture_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice::tools {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

graphs::CapturedTask task(const graphs::CaptureKey& key) {
  graphs::CapturedTask task;
  task.key = key;
  task.nodes = {7, 2, 1, 0, 4, 1};
  task.capture = std::chrono::microseconds(30);
  task.instantiate = std::chrono::microseconds(12);
  task.verified = true;
  return task;
}

graphs::Manifest manifest() {
  graphs::Manifest manifest;
  manifest.device = "a device";
  manifest.slots = 2;
  manifest.memory = {2048, 512, 4608};
  for (const Slot slot : {0U, 1U}) manifest.tasks.push_back(task({0, Pass::Forward, false, slot}));
  manifest.tasks.push_back(task({1, Pass::Backward, true, 0}));
  return manifest;
}

std::vector<graphs::CaptureTarget> named(const std::vector<std::string>& names) {
  std::vector<graphs::CaptureTarget> targets;
  for (const std::string& name : names) targets.emplace_back().name = name;
  return targets;
}

TEST(CaptureTable, HasALineForTheSlotsOfEachPass) {
  const std::string table = capture_table(manifest(), named({"encoder", "decoder"}));
  EXPECT_THAT(table, HasSubstr("3 graphs of 2 chunks on a device"));
  EXPECT_THAT(table, HasSubstr("| 0 encoder | F         | -      | 2      | 15    | 7/2/1/5 "));
  EXPECT_THAT(table, HasSubstr("| 1 decoder | B (whole) | -      | 1      | 15    | 7/2/1/5 "));
  EXPECT_THAT(table, AllOf(HasSubstr("| 30 "), HasSubstr("| 12 "), HasSubstr("| equal")));
  EXPECT_THAT(table, HasSubstr("memory: 2 slots of 2 KiB, 512 B of temporaries, 4.5 KiB in all"));
}

TEST(CaptureTable, TellsTheWorstReplayOfThePass) {
  graphs::Manifest worse = manifest();
  worse.tasks[1].verification = {0.25, 0.001, 3, false};
  EXPECT_THAT(capture_table(worse, named({"a", "b"})),
              HasSubstr("differs by up to 0.25 and in 3 bytes; kernels are not deterministic"));
  worse.tasks[0].verified = false;
  EXPECT_THAT(capture_table(worse, named({"a", "b"})),
              AllOf(HasSubstr("not verified"), Not(HasSubstr("differs"))));
}

TEST(CaptureTable, SaysThatMemoryOutsideTheSlotsIsNotCounted) {
  graphs::Manifest outside = manifest();
  EXPECT_THAT(capture_table(outside, named({"a", "b"})), Not(HasSubstr("not counted")));
  outside.saves_outside_slot = {false, true};
  EXPECT_THAT(
      capture_table(outside, named({"a", "b"})),
      HasSubstr("4.5 KiB in all; the memory that 1 of 2 chunks saves outside the slots is not counted"));
}

}  // namespace
}  // namespace sluice::tools
