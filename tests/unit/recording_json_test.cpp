#include "sluice/trace/recording_json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "recorded_world.hpp"
#include "sluice/error.hpp"

namespace sluice::trace {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Recording sample() {
  RecordedRun bf = test::RecordedWorld{Pipeline::chain(2, 3), "bf", 2, {}, 2}.record();
  bf.agreements.push_back({1, 1, Time{3}, Time{8}});
  bf.lost = 4;
  RecordedRun paper =
      test::RecordedWorld{Pipeline::interleaved(2, 2, 2, true), "bfw", 4, Rules::paper()}.record();
  paper.launch_ahead = 3;
  return {R"({"emulate":"f=1ms,b=2ms","seed":7})", {bf, paper}};
}

bool same(const Decision& a, const Decision& b) {
  return a.task == b.task && a.iteration == b.iteration && a.at == b.at && a.slot == b.slot &&
         a.whole == b.whole && a.focus == b.focus && a.runnable == b.runnable &&
         a.held_by_limit == b.held_by_limit && a.held_by_order == b.held_by_order;
}

TEST(RecordingJson, WhatWasWrittenIsReadAgain) {
  const Recording written = sample();
  const Recording read = read_recording(write_recording(written));
  EXPECT_EQ(read.settings, written.settings);
  ASSERT_EQ(read.runs.size(), written.runs.size());
  for (std::size_t i = 0; i < read.runs.size(); ++i) {
    const RecordedRun& a = written.runs[i];
    const RecordedRun& b = read.runs[i];
    EXPECT_EQ(a.method, b.method);
    EXPECT_EQ(a.limits, b.limits);
    EXPECT_EQ(a.rules.ordered_accumulation, b.rules.ordered_accumulation);
    EXPECT_EQ(a.rules.bounded_admission, b.rules.bounded_admission);
    EXPECT_EQ(a.launch_ahead, b.launch_ahead);
    EXPECT_EQ(a.lost, b.lost);
    EXPECT_EQ(a.pipeline.stages(), b.pipeline.stages());
    EXPECT_EQ(a.pipeline.split_backward(), b.pipeline.split_backward());
    EXPECT_TRUE(std::ranges::equal(a.pipeline.edges(), b.pipeline.edges()));
    EXPECT_EQ(a.iterations, b.iterations);
    EXPECT_EQ(a.tasks, b.tasks);
    EXPECT_EQ(a.messages, b.messages);
    EXPECT_EQ(a.agreements, b.agreements);
    ASSERT_EQ(a.decisions.size(), b.decisions.size());
    for (std::size_t stage = 0; stage < a.decisions.size(); ++stage)
      EXPECT_TRUE(std::ranges::equal(a.decisions[stage], b.decisions[stage], same));
  }
  EXPECT_EQ(write_recording(read), write_recording(written));
}

TEST(RecordingJson, SettingsMustBeAnObject) {
  for (const char* settings : {"", "[]", "3", "{"})
    EXPECT_THROW((void)write_recording({settings, {}}), Error);
}

/// One microbatch through two stages.
const std::string kSmall =
    R"({"format":"sluice-recording","version":1,"settings":{},"runs":[{"method":"bf",)"
    R"("pipeline":{"chunks":[[0,true],[1,true]],"edges":[[0,1]],"microbatches":2,"split":false},)"
    R"("limits":[2,2],"rules":{"ordered_accumulation":true,"hold_until_weight_grad":true,"reservation":true,)"
    R"("bounded_admission":true,"mixed_at_limit":true,"weight_grad_makes_room":true},"launch_ahead":1,"lost":0,)"
    R"("iterations":{"columns":["iteration","kind","start","end"],"rows":[[1,0,0,90]]},)"
    R"("tasks":{"columns":["iteration","stage","pass","chunk","microbatch","whole","slot","start","end",)"
    R"("noticed"],"rows":[[1,0,0,0,0,0,0,5,10,11],[1,1,1,1,1,1,0,20,40,41]]},)"
    R"("messages":{"columns":["iteration","edge","direction","microbatch","sent","offered","accepted","arrived"],)"
    R"("rows":[[1,0,0,0,11,12,13,14]]},)"
    R"("agreements":{"columns":["iteration","stage","asked","decided"],"rows":[[1,1,2,3]]},)"
    R"("decisions":{"columns":["iteration","stage","pass","chunk","microbatch","whole","slot","at","focus",)"
    R"("runnable_f","runnable_b","runnable_w","held_by_limit","held_by_order"],)"
    R"("rows":[[1,0,0,0,0,0,0,5,0,1,0,0,0,0]]}}]})";

TEST(RecordingJson, TheSmallSampleIsSound) {
  const Recording recording = read_recording(kSmall);
  ASSERT_EQ(recording.runs.size(), 1U);
  EXPECT_EQ(recording.runs[0].tasks.size(), 2U);
  EXPECT_EQ(recording.runs[0].messages[0].arrived, Time{14});
}

std::string refusal(const std::string& text) {
  try {
    (void)read_recording(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing was refused";
}

struct Fault {
  const char* name;
  /// Replaced in the sample, where it is once.
  const char* sound;
  const char* faulty;
  /// How the error begins.
  const char* field;
  /// What it says.
  const char* reason = "";
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

class MalformedRecording : public ::testing::TestWithParam<Fault> {};

TEST_P(MalformedRecording, IsRefusedByItsField) {
  const Fault& fault = GetParam();
  std::string text = kSmall;
  const std::size_t at = text.find(fault.sound);
  ASSERT_NE(at, std::string::npos);
  ASSERT_EQ(text.find(fault.sound, at + 1), std::string::npos) << "the sample has it twice";
  text.replace(at, std::string(fault.sound).size(), fault.faulty);
  EXPECT_THAT(refusal(text), StartsWith(std::string(fault.field) + ": "));
  EXPECT_THAT(refusal(text), HasSubstr(fault.reason));
}

const char* const kFirstTask = "[1,0,0,0,0,0,0,5,10,11]";
const char* const kMessage = "[1,0,0,0,11,12,13,14]";
const char* const kDecision = "[1,0,0,0,0,0,0,5,0,1,0,0,0,0]";

INSTANTIATE_TEST_SUITE_P(
    Table, MalformedRecording,
    ::testing::Values(
        Fault{"Format", "sluice-recording", "sluice", "format"},
        Fault{"Version", R"("version":1)", R"("version":2)", "version"},
        Fault{"VersionType", R"("version":1)", R"("version":"1")", "version"},
        Fault{"Settings", R"("settings":{})", R"("settings":[])", "settings"},
        Fault{"Unknown", R"("settings":{})", R"("settings":{},"more":1)", "", "more"},
        Fault{"NoRuns", R"("version":1,"settings":{},"runs":[{)",
              R"("version":1,"settings":{},"runs":3,"x":[{)", "", "x"},
        Fault{"Method", R"("method":"bf")", R"("method":7)", "runs[0].method"},
        Fault{"EmptyMethod", R"("method":"bf")", R"("method":"")", "runs[0].method"},
        Fault{"NoMethod", R"("method":"bf",)", "", "runs[0].method", "missing"},
        Fault{"ChunkShape", "[0,true]", "[0]", "runs[0].pipeline.chunks[0]"},
        Fault{"ChunkStage", "[0,true]", "[70000,true]", "runs[0].pipeline.chunks[0][0]"},
        Fault{"EmptyStage", "[1,true]", "[2,true]", "runs[0].pipeline.stages"},
        Fault{"Cycle", "[[0,1]]", "[[0,1],[1,0]]", "runs[0].pipeline.edges[1]"},
        Fault{"SelfEdge", "[[0,1]]", "[[1,1]]", "runs[0].pipeline.edges[0]"},
        Fault{"EdgeToNowhere", "[[0,1]]", "[[0,9]]", "runs[0].pipeline.edges"},
        Fault{"TwoEdges", "[[0,1]]", "[[0,1],[0,1]]", "runs[0].pipeline.edges"},
        Fault{"NoMicrobatches", R"("microbatches":2)", R"("microbatches":0)",
              "runs[0].pipeline.microbatches"},
        Fault{"ManyMicrobatches", R"("microbatches":2)", R"("microbatches":4000000000)",
              "runs[0].pipeline.microbatches"},
        Fault{"Split", R"("split":false)", R"("split":0)", "runs[0].pipeline.split"},
        Fault{"Limits", R"("limits":[2,2])", R"("limits":[2])", "runs[0].limits"},
        Fault{"ZeroLimit", R"("limits":[2,2])", R"("limits":[2,0])", "runs[0].limits[1]"},
        Fault{"Rules", R"("reservation":true)", R"("reservation":1)", "runs[0].rules.reservation"},
        Fault{"Depth", R"("launch_ahead":1)", R"("launch_ahead":-1)", "runs[0].launch_ahead"},
        Fault{"NoDepth", R"("launch_ahead":1)", R"("launch_ahead":0)", "runs[0].launch_ahead"},
        Fault{"DeepDepth", R"("launch_ahead":1)", R"("launch_ahead":65)", "runs[0].launch_ahead", "64"},
        Fault{"HugeDepth", R"("launch_ahead":1)", R"("launch_ahead":2147483648)", "runs[0].launch_ahead"},
        Fault{"Lost", R"("lost":0)", R"("lost":0.5)", "runs[0].lost"},
        Fault{"IterationEnd", "[1,0,0,90]", "[1,0,91,90]", "runs[0].iterations[0].end"},
        Fault{"IterationTwice", "[1,0,0,90]", "[1,0,0,90],[1,0,0,90]", "runs[0].iterations[1].iteration"},
        Fault{"IterationKind", "[1,0,0,90]", "[1,2,0,90]", "runs[0].iterations[0].kind"},
        Fault{"Column", R"(["iteration","kind",)", R"(["iteration","king",)",
              "runs[0].iterations.columns[1]"},
        Fault{"ColumnsShort", R"("kind","start","end"])", R"("kind","start"])", "runs[0].iterations.columns"},
        Fault{"RowShort", kFirstTask, "[1,0,0,0,0,0,0,5,10]", "runs[0].tasks[0]"},
        Fault{"RowType", kFirstTask, "7", "runs[0].tasks[0]"},
        Fault{"TaskIteration", kFirstTask, "[2,0,0,0,0,0,0,5,10,11]", "runs[0].tasks[0].iteration"},
        Fault{"TaskStage", kFirstTask, "[1,2,0,0,0,0,0,5,10,11]", "runs[0].tasks[0].stage"},
        Fault{"TaskWrongStage", kFirstTask, "[1,1,0,0,0,0,0,5,10,11]", "runs[0].tasks[0].stage", "chunk 0"},
        Fault{"TaskPass", kFirstTask, "[1,0,3,0,0,0,0,5,10,11]", "runs[0].tasks[0].pass"},
        Fault{"TaskChunk", kFirstTask, "[1,0,0,2,0,0,0,5,10,11]", "runs[0].tasks[0].chunk"},
        Fault{"TaskMicrobatch", kFirstTask, "[1,0,0,0,2,0,0,5,10,11]", "runs[0].tasks[0].microbatch"},
        Fault{"TaskWhole", kFirstTask, "[1,0,0,0,0,1,0,5,10,11]", "runs[0].tasks[0].whole"},
        Fault{"TaskSlot", kFirstTask, "[1,0,0,0,0,0,4294967296,5,10,11]", "runs[0].tasks[0].slot"},
        Fault{"TaskEnd", kFirstTask, "[1,0,0,0,0,0,0,11,10,11]", "runs[0].tasks[0].end"},
        Fault{"TaskNoticed", kFirstTask, "[1,0,0,0,0,0,0,5,10,9]", "runs[0].tasks[0].noticed"},
        Fault{"NegativeTime", kFirstTask, "[1,0,0,0,0,0,0,-5,10,11]", "runs[0].tasks[0].start", "-5"},
        Fault{"HugeTime", kFirstTask, "[1,0,0,0,0,0,0,5,10000000000000000,11]", "runs[0].tasks[0].end"},
        Fault{"HugeNumber", kFirstTask, "[1,0,0,0,0,0,0,5,1e999,11]", "recording", "1e999"},
        Fault{"ManyDigits", kFirstTask, "[1,0,0,0,0,0,0,5,99999999999999999999999999,11]",
              "runs[0].tasks[0].end"},
        Fault{"FractionOfANanosecond", kFirstTask, "[1,0,0,0,0,0,0,5,10.0,11]", "runs[0].tasks[0].end"},
        Fault{"NotANumber", kFirstTask, "[1,0,0,0,0,0,0,5,NaN,11]", "recording", "not JSON"},
        Fault{"Null", kFirstTask, "[1,0,0,0,0,0,0,5,null,11]", "runs[0].tasks[0].end", "null"},
        Fault{"TaskTwice", kFirstTask, "[1,0,0,0,0,0,0,5,10,11],[1,0,0,0,0,0,1,15,16,17]",
              "runs[0].tasks[1].microbatch", "twice"},
        Fault{"MessageEdge", kMessage, "[1,1,0,0,11,12,13,14]", "runs[0].messages[0].edge"},
        Fault{"MessageDirection", kMessage, "[1,0,2,0,11,12,13,14]", "runs[0].messages[0].direction"},
        Fault{"MessageMicrobatch", kMessage, "[1,0,0,5,11,12,13,14]", "runs[0].messages[0].microbatch"},
        Fault{"MessageOrder", kMessage, "[1,0,0,0,11,12,9,14]", "runs[0].messages[0].accepted"},
        Fault{"MessageTwice", kMessage, "[1,0,0,0,11,12,13,14],[1,0,0,0,11,12,13,14]",
              "runs[0].messages[1].microbatch", "twice"},
        Fault{"AgreementStage", "[1,1,2,3]", "[1,5,2,3]", "runs[0].agreements[0].stage"},
        Fault{"AgreementOrder", "[1,1,2,3]", "[1,1,4,3]", "runs[0].agreements[0].decided"},
        Fault{"DecisionIteration", kDecision, "[3,0,0,0,0,0,0,5,0,1,0,0,0,0]",
              "runs[0].decisions[0].iteration"},
        Fault{"DecisionFocus", kDecision, "[1,0,0,0,0,0,0,5,2,1,0,0,0,0]", "runs[0].decisions[0].focus"},
        Fault{"DecisionCount", kDecision, "[1,0,0,0,0,0,0,5,0,1,0,0,-1,0]",
              "runs[0].decisions[0].held_by_limit"}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(MalformedRecording, AMethodGivenTwice) {
  Recording recording = sample();
  recording.runs[1].method = recording.runs[0].method;
  EXPECT_THAT(refusal(write_recording(recording)), StartsWith("runs[1].method: "));
}

TEST(MalformedRecording, EveryTruncationIsRefused) {
  for (std::size_t size = 0; size < kSmall.size(); ++size)
    ASSERT_NE(refusal(kSmall.substr(0, size)), "nothing was refused") << size;
}

TEST(MalformedRecording, BytesThatAreNoText) {
  EXPECT_THAT(refusal(std::string("\xff\x00\x01", 3)), StartsWith("recording: "));
  EXPECT_THAT(refusal("[1, 2]"), StartsWith("format: "));
  EXPECT_THAT(refusal("null"), StartsWith("format: "));
  EXPECT_THAT(refusal(std::string(100'000, '[')), StartsWith("recording: "));
}

}  // namespace
}  // namespace sluice::trace
