#include "option/limits.hpp"

#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "method/method.hpp"
#include "sluice/error.hpp"

namespace sluice::tools::test {
namespace {

using Limits = std::vector<std::uint32_t>;

const Limits kOneChunk{1, 1, 1, 1};
const Limits kTwoChunks{2, 2, 2, 2};

template <typename Call>
std::string refusal(const Call& call) {
  try {
    (void)call();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

std::string refusal_of(const std::string& limit, const Limits& chunks = kOneChunk) {
  return refusal([&] { return parse_limits(limit, chunks); });
}

/// The options after a command line.
struct Given {
  explicit Given(std::vector<std::string> arguments) {
    options.declare(command);
    std::reverse(arguments.begin(), arguments.end());
    command.parse(std::move(arguments));
  }
  [[nodiscard]] Limits limits(const Limits& chunks = kOneChunk, std::uint32_t microbatches = 64) const {
    return options.limits(command, chunks, microbatches);
  }

  CLI::App command;
  LimitOptions options;
};

std::string refusal_given(const std::vector<std::string>& arguments, const Limits& chunks = kOneChunk) {
  return refusal([&] { return Given(arguments).limits(chunks); });
}

TEST(Limits, OneNumberIsForEveryStageAndAListIsByStage) {
  EXPECT_EQ(parse_limits("16", kOneChunk), (Limits{16, 16, 16, 16}));
  EXPECT_EQ(parse_limits("8,7,6,5", kOneChunk), (Limits{8, 7, 6, 5}));
  EXPECT_EQ(Given({}).limits(), (Limits{32, 32, 32, 32}));
}

TEST(Limits, MalformedOnesAreRefused) {
  for (const std::string text : {"", "0", "-1", "many", "1.5", "8,,6,5", "8,7,6,5,", "99999999999999999999",
                                 "8 7", "total:", "total:x", "total:-4"}) {
    EXPECT_EQ(refusal_of(text).substr(0, 7), "limit: ") << text;
  }
  EXPECT_EQ(refusal_of("8,7"), "limit: has 2 entries for 4 stages");
}

TEST(Limits, ATotalDescendsFromStageToStage) {
  EXPECT_EQ(parse_limits("total:10", kOneChunk), (Limits{4, 3, 2, 1}));
  EXPECT_EQ(parse_limits("total:16", kOneChunk), (Limits{6, 5, 3, 2}));
  EXPECT_EQ(parse_limits("total:4", kOneChunk), (Limits{1, 1, 1, 1}));
  EXPECT_EQ(refusal_of("total:3"), "limit: a total of 3 is too small, 4 stages need 4");
}

TEST(Limits, ATotalCountsTheSlotsAboveTheLimitOfSeveralChunks) {
  EXPECT_EQ(parse_limits("total:22", kTwoChunks), (Limits{5, 4, 3, 2}));
  EXPECT_EQ(refusal_of("total:15", kTwoChunks), "limit: a total of 15 is too small, 4 stages need 16");
}

TEST(SpreadSlots, GivesOutAllOfATotalInDescendingOrder) {
  for (std::uint64_t total = 16; total < 200; ++total) {
    for (const Limits& chunks : {kOneChunk, kTwoChunks}) {
      const Limits slots = spread_slots(total, chunks);
      EXPECT_EQ(std::accumulate(slots.begin(), slots.end(), std::uint64_t{0}), total);
      EXPECT_TRUE(std::is_sorted(slots.rbegin(), slots.rend())) << total;
    }
  }
}

TEST(MemoryLimit, IsRoundedDownToWholeMicrobatches) {
  const Given one({"--memory-limit", "10GiB", "--activation-bytes", "3GiB"});
  EXPECT_EQ(one.limits(), (Limits{3, 3, 3, 3}));
  const Given each({"--memory-limit", "10GiB", "--activation-bytes", "5GiB,3GiB,2.5GiB,10GiB"});
  EXPECT_EQ(each.limits(), (Limits{2, 3, 4, 1}));
}

TEST(MemoryLimit, CountsASlotOfOneOfSeveralChunksAsItsPart) {
  // 6 microbatches of 2 chunks are 12 slots, 2 of them above the limit.
  EXPECT_EQ(Given({"--memory-limit", "6GiB", "--activation-bytes", "1GiB"}).limits(kTwoChunks),
            (Limits{10, 10, 10, 10}));
}

TEST(MemoryLimit, OfMoreThanAllMicrobatchesIsThatOfAllOfThem) {
  EXPECT_EQ(Given({"--memory-limit", "1TiB", "--activation-bytes", "1"}).limits(kOneChunk, 8),
            (Limits{8, 8, 8, 8}));
}

TEST(MemoryLimit, BelowTheChunksOfAStageNamesTheStage) {
  EXPECT_EQ(refusal_given({"--memory-limit", "2GiB", "--activation-bytes", "1GiB,2GiB,3GiB,1GiB"}),
            "memory-limit: 2 GiB is too little for stage 2, which needs 1 microbatch of 3 GiB");
  EXPECT_EQ(
      refusal_given({"--memory-limit", "1.5GiB", "--activation-bytes", "1GiB"}, kTwoChunks),
      "memory-limit: 1.5 GiB is too little for stage 0, which needs 2 microbatches of its 2 chunks of 1 GiB");
}

TEST(MemoryLimit, NeedsTheBytesOfAMicrobatchAndNoOtherLimit) {
  EXPECT_EQ(refusal_given({"--memory-limit", "2GiB"}),
            "activation-bytes: is needed with --memory-limit: what one microbatch takes on a stage");
  EXPECT_EQ(refusal_given({"--memory-limit", "2GiB", "--activation-bytes", "1", "--limit", "3"}),
            "memory-limit: give it or --limit, not both");
  EXPECT_EQ(refusal_given({"--memory-limit", "2GiB", "--activation-bytes", "1,2"}),
            "activation-bytes: has 2 entries for 4 stages");
}

TEST(Bytes, HaveAUnitOrNone) {
  EXPECT_EQ(parse_bytes("x", "24GiB"), 24ULL << 30U);
  EXPECT_EQ(parse_bytes("x", "1.5kB"), 1500U);
  EXPECT_EQ(parse_bytes("x", "7"), 7U);
  EXPECT_EQ(bytes_text(24ULL << 30U), "24 GiB");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  for (const std::string text :
       {"", "GiB", "1 GiB", "0", "-1GiB", "nan", "inf", "1e999", "1GB2", "9999999TiB"})
    EXPECT_EQ(refusal([&] { return parse_bytes("x", text); }).substr(0, 3), "x: ") << text;
}

TEST(PeakMemory, IsThatOfTheSlotsHeld) {
  const Limits in_flight{4, 2};
  const std::vector<std::uint64_t> bytes{1000, 500};
  EXPECT_EQ(peak_memory(in_flight, bytes, Limits{2, 1}), (std::vector<std::uint64_t>{2000, 1000}));
  EXPECT_EQ(peak_text(in_flight, bytes), "in flight by stage 4,2 (total 6), at most 1000 B on a stage");
  EXPECT_EQ(peak_text(in_flight, {}), "in flight by stage 4,2 (total 6)");
}

PipelineSettings settings_of(std::uint32_t chunks) {
  PipelineSettings settings;
  settings.stages = 4;
  settings.chunks_per_stage = chunks;
  return settings;
}

TEST(EqualMemory, GivesEveryStageTheSlotsTheScheduleNeeds) {
  EXPECT_EQ(Method("1f1b", settings_of(1)).equal_memory().limits, (Limits{4, 3, 2, 1}));
  EXPECT_EQ(Method("zb-h1", settings_of(1)).equal_memory().limits, (Limits{4, 4, 4, 4}));
  EXPECT_EQ(Method("interleaved", settings_of(2)).equal_memory().limits, (Limits{9, 7, 5, 3}));
}

TEST(EqualMemory, OfAHintIsRefused) {
  EXPECT_EQ(
      refusal([] { return Method("bf", settings_of(1)).equal_memory(); }),
      "equal-memory: the first method must be a schedule, but what bf holds in flight depends on the run");
}

}  // namespace
}  // namespace sluice::tools::test
