#include "sluice/graphs/manifest.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "cuda/cached_chunk.hpp"
#include "sluice/error.hpp"

namespace sluice::graphs {
namespace {

using ::testing::HasSubstr;

TensorShape shape_of(std::uint8_t code, std::uint8_t bits, std::initializer_list<std::int64_t> extents) {
  TensorShape shape;
  shape.dtype_code = code;
  shape.dtype_bits = bits;
  for (const std::int64_t extent : extents) shape.extent[shape.rank++] = extent;
  return shape;
}

Manifest sample() {
  Manifest manifest{.rank = 2,
                    .device = "A \"device\"",
                    .slots = 4,
                    .memory = {.saved_per_slot = 1024, .temporary = 512, .total = 4608},
                    .saved_bytes = {700, 300},
                    .saves_outside_slot = {false, true},
                    .tasks = {}};
  CapturedTask forward;
  forward.key = {3, Pass::Forward, false, 1};
  forward.bucket = 2;
  forward.shapes = {shape_of(2, 32, {8, 128}), shape_of(4, 16, {}), shape_of(9, 8, {0})};
  forward.nodes = {21, 2, 1, 4, 6, 5};
  forward.graph_bytes = 4096;
  forward.capture = std::chrono::microseconds(120);
  forward.instantiate = std::chrono::microseconds(80);
  CapturedTask backward;
  backward.key = {1, Pass::Backward, true, 3};
  backward.lane = Lane::Reduction;
  backward.verified = true;
  backward.verification = {0.25, 1e-7, 3, false};
  manifest.tasks = {forward, backward};
  return manifest;
}

void expect_same(const Manifest& a, const Manifest& b) {
  EXPECT_EQ(a.rank, b.rank);
  EXPECT_EQ(a.device, b.device);
  EXPECT_EQ(a.slots, b.slots);
  EXPECT_EQ(a.memory.saved_per_slot, b.memory.saved_per_slot);
  EXPECT_EQ(a.memory.temporary, b.memory.temporary);
  EXPECT_EQ(a.memory.total, b.memory.total);
  EXPECT_EQ(a.saved_bytes, b.saved_bytes);
  EXPECT_EQ(a.saves_outside_slot, b.saves_outside_slot);
  EXPECT_EQ(a.tasks, b.tasks);
}

TEST(Manifest, IsReadAsItWasWritten) { expect_same(read_manifest(write_manifest(sample())), sample()); }

TEST(Manifest, OfACaptureIsReadAsItWasWritten) {
  test::CachedChunk chunk({.slots = 3});
  chunk.capture();
  const Manifest manifest = chunk.cache().manifest("a device");
  EXPECT_EQ(manifest.tasks.size(), 12U);
  EXPECT_TRUE(std::ranges::is_sorted(manifest.tasks, {}, &CapturedTask::key));
  EXPECT_EQ(manifest.slots, 3U);
  EXPECT_EQ(manifest.memory.total, chunk.memory().bytes().total);
  EXPECT_EQ(manifest.saved_bytes, std::vector<std::uint64_t>{chunk.stage().memory().saved_bytes});
  expect_same(read_manifest(write_manifest(manifest)), manifest);
}

TEST(Manifest, OfACaptureTellsWhatSavesOutsideItsSlots) {
  test::CachedChunk chunk({.slots = 1});
  EXPECT_EQ(chunk.cache().manifest("a device").saves_outside_slot, std::vector<bool>{false});
  chunk.stage().set_saves_outside_slot();
  EXPECT_EQ(chunk.cache().manifest("a device").saves_outside_slot, std::vector<bool>{true});
}

TEST(Manifest, OfAnEarlierVersionSavesNothingOutsideItsSlots) {
  nlohmann::json document = nlohmann::json::parse(write_manifest(sample()));
  ASSERT_EQ(document.erase("saves_outside_slot"), 1U);
  Manifest expected = sample();
  expected.saves_outside_slot.clear();
  expect_same(read_manifest(document.dump()), expected);
}

TEST(Manifest, NamesShapesAsDlpackDoes) {
  EXPECT_EQ(to_string(shape_of(2, 32, {8, 128})), "float32[8, 128]");
  EXPECT_EQ(to_string(shape_of(4, 16, {})), "bfloat16[]");
  EXPECT_EQ(to_string(shape_of(0, 64, {1})), "int64[1]");
  EXPECT_EQ(to_string(shape_of(9, 8, {1})), "type9_8[1]");
}

/// Sets or, with a discarded value, removes what a JSON pointer names.
struct Change {
  std::string pointer;
  nlohmann::json value;
  std::string field;
};

class MalformedManifest : public ::testing::TestWithParam<Change> {};

TEST_P(MalformedManifest, NamesTheField) {
  const Change& change = GetParam();
  nlohmann::json document = nlohmann::json::parse(write_manifest(sample()));
  const nlohmann::json::json_pointer pointer(change.pointer);
  if (change.value.is_discarded()) {
    document[pointer.parent_pointer()].erase(pointer.back());
  } else {
    document[pointer] = change.value;
  }
  try {
    static_cast<void>(read_manifest(document.dump()));
    FAIL() << "read";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), change.field) << error.what();
  }
}

const nlohmann::json kRemoved(nlohmann::json::value_t::discarded);

INSTANTIATE_TEST_SUITE_P(
    Manifest, MalformedManifest,
    ::testing::Values(
        Change{"/format", "sluice-recording", "format"}, Change{"/format", kRemoved, "format"},
        Change{"/version", 2, "version"}, Change{"/rank", -1, "rank"}, Change{"/device", 5, "device"},
        Change{"/slots", kRemoved, "slots"}, Change{"/extra", 1, ""}, Change{"/memory", 7, "memory"},
        Change{"/memory/total_bytes", "many", "memory.total_bytes"},
        Change{"/memory/slot_bytes", 1.5, "memory.slot_bytes"}, Change{"/saved_bytes", 3, "saved_bytes"},
        Change{"/saved_bytes/1", nullptr, "saved_bytes[1]"},
        Change{"/saves_outside_slot", true, "saves_outside_slot"},
        Change{"/saves_outside_slot/1", 1, "saves_outside_slot[1]"},
        Change{"/saves_outside_slot/2", true, "saves_outside_slot"}, Change{"/tasks", "none", "tasks"},
        Change{"/tasks/0", 1, "tasks[0]"}, Change{"/tasks/1/pass", "X", "tasks[1].pass"},
        Change{"/tasks/1/pass", "F", "tasks[1].whole"}, Change{"/tasks/0/whole", 1, "tasks[0].whole"},
        Change{"/tasks/0/slot", 4, "tasks[0].slot"}, Change{"/tasks/0/chunk", 65536, "tasks[0].chunk"},
        Change{"/tasks/0/lane", "left", "tasks[0].lane"},
        Change{"/tasks/0/bucket", kRemoved, "tasks[0].bucket"},
        Change{"/tasks/0/shapes/0/type", "float", "tasks[0].shapes[0].type"},
        Change{"/tasks/0/shapes/0/type", "float999", "tasks[0].shapes[0].type"},
        Change{"/tasks/0/shapes/0/type", "type9_", "tasks[0].shapes[0].type"},
        Change{"/tasks/0/shapes/0/extents/1", -3, "tasks[0].shapes[0].extents[1]"},
        Change{"/tasks/0/shapes/1/extents", nlohmann::json::array({1, 2, 3, 4, 5, 6, 7, 8, 9}),
               "tasks[0].shapes[1].extents"},
        Change{"/tasks/0/nodes/kernels", 4294967296, "tasks[0].nodes.kernels"},
        Change{"/tasks/0/nodes/more", 1, "tasks[0].nodes"},
        Change{"/tasks/0/graph_bytes", -1, "tasks[0].graph_bytes"},
        Change{"/tasks/0/capture_ns", 1e18, "tasks[0].capture_ns"},
        Change{"/tasks/0/instantiate_ns", "long", "tasks[0].instantiate_ns"},
        Change{"/tasks/1/verification", true, "tasks[1].verification"},
        Change{"/tasks/1/verification/max_abs_error", -0.5, "tasks[1].verification.max_abs_error"},
        Change{"/tasks/1/verification/max_rel_error", nullptr, "tasks[1].verification.max_rel_error"},
        Change{"/tasks/1/verification/deterministic", kRemoved, "tasks[1].verification.deterministic"}));

TEST(MalformedManifest, ATaskThatIsThereTwiceIsRefused) {
  Manifest manifest = sample();
  manifest.tasks.push_back(manifest.tasks[0]);
  try {
    static_cast<void>(read_manifest(write_manifest(manifest)));
    FAIL() << "read";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "tasks[2]");
    EXPECT_THAT(error.what(), HasSubstr("F(chunk 3, slot 1)"));
  }
}

TEST(MalformedManifest, MoreChunksThanSavedBytesAreRefused) {
  Manifest manifest = sample();
  manifest.saved_bytes.pop_back();
  manifest.saves_outside_slot.pop_back();
  EXPECT_THROW(static_cast<void>(read_manifest(write_manifest(manifest))), ConfigError);
}

TEST(MalformedManifest, WhatIsNotJsonIsToldWithItsPlace) {
  const std::string whole = write_manifest(sample());
  for (const std::string& bytes :
       {std::string(), std::string("{"), std::string("[1, 2"), std::string("\xff\xfe"), whole + "x"}) {
    try {
      static_cast<void>(read_manifest(bytes));
      FAIL() << "read: " << bytes;
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.field(), "manifest");
    }
  }
  EXPECT_THROW(static_cast<void>(read_manifest("[]")), ConfigError);
}

TEST(MalformedManifest, NoCutIsRead) {
  const std::string whole = write_manifest(sample());
  for (std::size_t bytes = 0; bytes + 2 < whole.size(); bytes += 7)
    EXPECT_THROW(static_cast<void>(read_manifest(whole.substr(0, bytes))), ConfigError) << bytes;
}

}  // namespace
}  // namespace sluice::graphs
