#include "sluice/graphs/target_capture.hpp"

#include <dlpack/dlpack.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cuda/branched_stage.hpp"
#include "cuda/left_on_device.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/cuda/device.hpp"
#include "sluice/error.hpp"
#include "sluice/graphs/capture_error.hpp"

namespace sluice::graphs {
namespace {

using test::StageFault;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kElements = 32;
constexpr std::uint32_t kSlots = 2;

struct Ends {
  bool input = true;
  bool output = true;
};

CaptureTarget target(const std::string& name, const Ends& ends, bool split = false,
                     StageFault fault = StageFault::None) {
  TensorShape shape;
  shape.dtype_code = kDLFloat;
  shape.dtype_bits = 32;
  shape.rank = 1;
  shape.extent[0] = kElements;
  CaptureTarget target;
  target.name = name;
  if (ends.input) target.inputs = {shape};
  if (ends.output) target.outputs = {shape};
  target.split = split;
  target.stage = std::make_unique<test::BranchedStage>(
      test::BranchedStage::Options{kElements, kSlots, ends.input, ends.output, 0, fault, false});
  return target;
}

template <typename... Targets>
std::vector<CaptureTarget> list(Targets... targets) {
  std::vector<CaptureTarget> all;
  (all.push_back(std::move(targets)), ...);
  return all;
}

std::set<std::string> dot_names(const TargetCapture& capture) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < capture.cache().captured().size(); ++i) names.insert(capture.dot_name(i));
  return names;
}

class TargetCaptureTest : public ::testing::Test {
 protected:
  void SetUp() override { cuda::use_device(0); }
};

TEST_F(TargetCaptureTest, EveryPassAndSlotIsCapturedAndVerified) {
  TargetCapture capture(list(target("middle", {})), kSlots, {});
  std::vector<std::pair<std::uint32_t, std::uint32_t>> progress;
  capture.run([&](std::uint32_t done, std::uint32_t all) { progress.emplace_back(done, all); });
  EXPECT_EQ(progress, (std::vector<std::pair<std::uint32_t, std::uint32_t>>{{1, 4}, {2, 4}, {3, 4}, {4, 4}}));
  const Manifest manifest = capture.manifest("some device");
  EXPECT_EQ(manifest.device, "some device");
  EXPECT_EQ(manifest.slots, kSlots);
  ASSERT_EQ(manifest.tasks.size(), 4U);
  for (const CapturedTask& task : manifest.tasks) {
    EXPECT_EQ(task.key.chunk, 0);
    EXPECT_TRUE(task.verified);
    EXPECT_EQ(task.verification.max_abs_error, 0);
    EXPECT_GE(task.nodes.total(), 20U);
  }
  EXPECT_EQ(dot_names(capture),
            (std::set<std::string>{"chunk0_F_slot0.dot", "chunk0_F_slot1.dot", "chunk0_B_whole_slot0.dot",
                                   "chunk0_B_whole_slot1.dot"}));
}

TEST_F(TargetCaptureTest, TargetsAreChunksInTheirOrder) {
  TargetCapture capture(
      list(target("first", {false, true}), target("middle", {}), target("last", {true, false})), kSlots, {});
  capture.run();
  const Manifest manifest = capture.manifest("device");
  std::vector<Chunk> chunks;
  for (const CapturedTask& task : manifest.tasks)
    if (task.key.slot == 1 && task.key.pass == Pass::Backward) chunks.push_back(task.key.chunk);
  EXPECT_THAT(chunks, ElementsAre(0, 1, 2));
  EXPECT_EQ(manifest.saved_bytes.size(), 3U);
}

TEST_F(TargetCaptureTest, WhatSplitsIsCapturedAsTwoTasks) {
  TargetCapture capture(list(target("first", {false, true}, true), target("middle", {}, true)), kSlots, {});
  capture.run();
  const Manifest manifest = capture.manifest("device");
  EXPECT_EQ(manifest.tasks.size(), 3U * 2 * kSlots);
  EXPECT_TRUE(std::ranges::none_of(manifest.tasks, [](const CapturedTask& task) { return task.key.whole; }));
}

TEST_F(TargetCaptureTest, BesideOneThatDoesNotSplitAlsoAsOne) {
  TargetCapture capture(list(target("splits", {}, true), target("does not", {})), kSlots, {});
  capture.run();
  std::set<std::string> passes;
  for (const CapturedTask& task : capture.manifest("device").tasks)
    passes.insert(to_string(CaptureKey{task.key.chunk, task.key.pass, task.key.whole, 0}));
  EXPECT_EQ(passes,
            (std::set<std::string>{"F(chunk 0, slot 0)", "B(chunk 0, slot 0)", "B(chunk 0, slot 0, whole)",
                                   "W(chunk 0, slot 0)", "F(chunk 1, slot 0)", "B(chunk 1, slot 0, whole)"}));
}

TEST_F(TargetCaptureTest, AFailureNamesTheTargetAndLeavesNothing) {
  const std::size_t before = test::left_on_device();
  try {
    TargetCapture capture(list(target("fine", {}), target("slow", {}, false, StageFault::Synchronises)),
                          kSlots, {});
    capture.run();
    FAIL() << "captured";
  } catch (const CaptureError& error) {
    EXPECT_EQ(error.key(), (CaptureKey{1, Pass::Forward, false, 0}));
    EXPECT_EQ(error.code(), cudaErrorStreamCaptureUnsupported);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("capturing F(chunk 1, slot 0): slow: waiting for a layer"),
                                    HasSubstr("waits for the device")));
  }
  EXPECT_EQ(test::left_on_device(), before);
}

TEST_F(TargetCaptureTest, SlotsThatDoNotFitAreAnErrorThatSaysWhatWould) {
  if (fakecuda_live == nullptr) GTEST_SKIP() << "needs a device whose memory is known";
  const std::size_t before = test::left_on_device();
  CaptureTarget large = target("large", {});
  large.inputs.front().extent[0] = std::int64_t{1} << 28;
  try {
    const TargetCapture capture(list(std::move(large)), 64, {});
    FAIL() << "fits";
  } catch (const cuda::CudaError& error) {
    EXPECT_EQ(error.code(), cudaErrorMemoryAllocation);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("64 slots"), HasSubstr("a limit of 1 would fit")));
  }
  EXPECT_EQ(test::left_on_device(), before);
}

TEST_F(TargetCaptureTest, NothingToCaptureIsRefused) {
  EXPECT_THROW(TargetCapture({}, kSlots, {}), ConfigError);
  EXPECT_THROW(TargetCapture(std::vector<CaptureTarget>(1), kSlots, {}), ConfigError);
  EXPECT_THROW(TargetCapture(std::vector<CaptureTarget>(128), kSlots, {}), ConfigError);
  EXPECT_THROW(TargetCapture(list(target("none", {})), 0, {}), ConfigError);
}

}  // namespace
}  // namespace sluice::graphs
