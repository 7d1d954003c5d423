#include "option/scenario_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "sluice/error.hpp"

namespace sluice::tools {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kChain = R"(microbatches = 8
[pipeline]
topology = "chain"
stages = 3
[times]
forward = "10ms"
backward = "20ms"
)";

sim::Scenario parse(const std::string& text) { return parse_scenario(text, "test.toml").scenario; }
/// The chain, with keys of the file before it and tables after it.
sim::Scenario chain_with(const std::string& keys, const std::string& tables = "") {
  return parse(keys + "\n" + std::string(kChain) + tables);
}

TEST(ScenarioFile, AChainNeedsLittle) {
  const sim::Scenario scenario = chain_with("");
  EXPECT_EQ(scenario.pipeline.stages(), 3U);
  EXPECT_EQ(scenario.pipeline.microbatches(), 8U);
  EXPECT_EQ(scenario.times[2].forward(), 10ms);
  EXPECT_EQ(scenario.times[2].weight_grad(), 10ms) << "half of the backward";
  EXPECT_FALSE(scenario.limit_given);
  EXPECT_EQ(scenario.limits, (std::vector<std::uint32_t>{32, 32, 32}));
  EXPECT_EQ(scenario.group.size, 1U);
}

TEST(ScenarioFile, EveryKeyIsRead) {
  const ScenarioFile file = parse_scenario(R"(
name = "all of it"
microbatches = 4
limit = [3, 2]
rules = "default"
accumulate = "any"
launch-ahead = 2
replicas = 3
seed = 9
seeds = 5
methods = ["bf", "bfw"]
jitter-average = "nominal"
[pipeline]
topology = "interleaved"
stages = 2
chunks-per-stage = 2
[times]
forward = "8ms"
backward = "12ms"
weight-grad = "4ms"
sigma = 0.25
spread = "normal"
[[chunks]]
chunk = 3
scale = 2
sigma = 0
[[sizes]]
chunks = [0, 1]
sigma = 0.5
[[sizes]]
chunks = [2]
factors = [1, 2, 0.5, 1.5]
[link]
latency = "20us"
bandwidth = 1e9
bytes = 1000000
jitter = "tail:0.25,3"
[[links]]
edge = [1, 2]
latency = "30us"
jitter = "j2"
[group]
size = 2
rule = "common"
latency = "60us"
skew = "uniform:200us"
[overhead]
task = "80us"
hop = "20us"
)",
                                           "all.toml");
  const sim::Scenario& scenario = file.scenario;
  EXPECT_EQ(scenario.name, "all of it");
  EXPECT_EQ(scenario.pipeline.chunks(), 4U);
  EXPECT_EQ(scenario.limits, (std::vector<std::uint32_t>{3, 2}));
  EXPECT_TRUE(scenario.limit_given);
  EXPECT_FALSE(scenario.rules.ordered_accumulation);
  EXPECT_EQ(scenario.depth, 2U);
  EXPECT_EQ(scenario.replicas, 3U);
  EXPECT_EQ(scenario.seed, 9U);
  EXPECT_EQ(file.seeds, 5U);
  EXPECT_EQ(file.methods, (std::vector<std::string>{"bf", "bfw"}));
  EXPECT_EQ(scenario.times[0].forward(), 4ms) << "a stage's time is shared by its chunks";
  EXPECT_EQ(scenario.times[0].weight_grad(), 2ms);
  EXPECT_EQ(scenario.times[0].spread(), host::Spread::Normal);
  EXPECT_EQ(scenario.times[0].sigma(), 0.25);
  EXPECT_EQ(scenario.times[3].forward(), 8ms);
  EXPECT_EQ(scenario.times[3].sigma(), 0);
  ASSERT_EQ(scenario.sizes.size(), 2U);
  EXPECT_EQ(scenario.sizes[0].chunks, (std::vector<Chunk>{0, 1}));
  EXPECT_EQ(scenario.sizes[1].factors, (std::vector<double>{1, 2, 0.5, 1.5}));
  EXPECT_EQ(scenario.links[0].latency, 20us);
  EXPECT_FALSE(scenario.links[0].jitter.uses_average());
  EXPECT_EQ(scenario.links[1].latency, 30us);
  EXPECT_EQ(scenario.links[1].bytes, 1'000'000U) << "what an override leaves out stays";
  EXPECT_TRUE(scenario.links[1].jitter.uses_average());
  EXPECT_EQ(scenario.group.size, 2U);
  EXPECT_EQ(scenario.group.latency, 60us);
  EXPECT_EQ(scenario.skew.kind, sim::Skew::Kind::Uniform);
  EXPECT_EQ(scenario.skew.mean, 200us);
  EXPECT_EQ(scenario.overhead.task, 80us);
  EXPECT_EQ(scenario.overhead.hop, 20us);
  EXPECT_EQ(scenario.nominal_compute, 6250us);
}

constexpr std::string_view kTraced = R"(microbatches = 8
[pipeline]
stages = 3
[times]
trace = "run.json#bf"
)";

TEST(ScenarioFile, ARecordingIsNamedAndNotOpened) {
  const ScenarioFile file = parse_scenario(kTraced, "test.toml");
  ASSERT_TRUE(file.trace);
  EXPECT_EQ(file.trace->input, "run.json#bf");
  EXPECT_EQ(file.trace->line, 5U);
  EXPECT_FALSE(file.scenario.recorded_time);
}

TEST(ScenarioFile, ARecordingStandsAlone) {
  const auto field_of = [](const std::string& more) -> std::string {
    try {
      (void)parse(std::string(kTraced) + more);
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("line "));
      return error.field();
    }
    return "accepted";
  };
  EXPECT_EQ(field_of(""), "accepted");
  for (const char* key : {"forward", "backward", "weight-grad", "scale", "sigma", "spread"})
    EXPECT_EQ(field_of(std::string(key) + " = 1"), std::string("times.") + key);
  EXPECT_EQ(field_of("[[chunks]]\nchunk = 0"), "chunks");
  EXPECT_EQ(field_of("[[sizes]]\nchunks = [0]\nsigma = 1"), "sizes");
  EXPECT_EQ(field_of("trance = 1"), "times.trance");
}

TEST(ScenarioFile, EveryTopology) {
  const auto of = [](const std::string& table) {
    return parse("microbatches = 2\n[pipeline]\n" + table + "\n[times]\nforward='1ms'\nbackward='2ms'\n")
        .pipeline;
  };
  EXPECT_EQ(of("stages = 3").chunks(), 3U) << "a chain unless said otherwise";
  EXPECT_EQ(of("topology = 'v'\nstages = 3").stage_of(3), 2);
  const Pipeline joined = of("topology = 'joined'\nencoders = [2, 1]\ndecoder = 2");
  EXPECT_EQ(joined.chunks(), 5U);
  EXPECT_EQ(joined.in_edges(3).size(), 2U);
  const Pipeline dag =
      of("topology = 'explicit'\nstage-of = [0, 1, 1, 0]\nedges = [[0, 1], [1, 2], [0, 3], [2, 3]]\n"
         "unsplittable = [3]");
  EXPECT_EQ(dag.stages(), 2U);
  EXPECT_EQ(dag.edges().size(), 4U);
  EXPECT_TRUE(dag.splittable(0));
  EXPECT_FALSE(dag.splittable(3));
}

TEST(ScenarioFile, TheExamplesAreValid) {
  std::size_t count = 0;
  const std::filesystem::path folder = std::filesystem::path(SLUICE_SOURCE_DIR) / "scenarios";
  for (const char* name : {"chain.toml", "two_encoders.toml", "tensor_parallel.toml"}) {
    EXPECT_NO_THROW((void)read_scenario((folder / name).string())) << name;
    ++count;
  }
  EXPECT_EQ(count, 3U);
}

struct Malformed {
  std::string keys;
  std::string tables;
  std::string field;
  std::string says;
};

class MalformedScenario : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedScenario, IsRefusedNamingTheField) {
  const auto& [keys, tables, field, says] = GetParam();
  try {
    (void)chain_with(keys, tables);
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), field) << error.what();
    EXPECT_THAT(error.what(), testing::HasSubstr(says));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Fields, MalformedScenario,
    testing::Values(
        Malformed{"speed = 3", "", "speed", "is not a key of this table (line 1)"},
        Malformed{"", "colour = 1", "times.colour", "(line 9)"},
        Malformed{"", "[links]\nedge = 1", "links", "must be a list of tables, [[links]]"},
        Malformed{"", "[[link]]\nlatency = '1ms'", "link", "must be a table"},
        Malformed{"", "[[chunks]]\nforward = '1ms'", "chunks[0].chunk", "is missing"},
        Malformed{"", "[[chunks]]\nchunk = 3", "chunks[0].chunk", "whole number in 0 to 2"},
        Malformed{"", "[[chunks]]\nchunk = 1\n[[chunks]]\nchunk = 1", "chunks[1].chunk", "given twice"},
        Malformed{"", "[[chunks]]\nchunk = 1\n[[chunks]]\nchunk = 2\nforward = '-1ms'", "chunks[1].forward",
                  "does not lie in 0 to 10 minutes (line 13)"},
        Malformed{"", "[[chunks]]\nchunk = 1\nforward = 'nanms'", "chunks[0].forward", "10 minutes"},
        Malformed{"", "[[chunks]]\nchunk = 1\nforward = '1e999s'", "chunks[0].forward", "out of range"},
        Malformed{"", "[[chunks]]\nchunk = 1\nforward = '5'", "chunks[0].forward", "not a time such as 10ms"},
        Malformed{"", "[[chunks]]\nchunk = 1\nforward = 5", "chunks[0].forward", "in quotes"},
        Malformed{"", "[[chunks]]\nchunk = 1\nweight-grad = '21ms'", "chunks[0].weight-grad",
                  "part of the backward"},
        Malformed{"", "[[chunks]]\nchunk = 1\nscale = 1e6", "chunks[0].scale", "10 minutes"},
        Malformed{"", "[[chunks]]\nchunk = 1\nsigma = nan", "chunks[0].sigma", "number in 0 to 2"},
        Malformed{"", "[[chunks]]\nchunk = 1\nspread = 'cauchy'", "chunks[0].spread", "lognormal, normal"},
        Malformed{"", "[[sizes]]\nsigma = 0.5", "sizes[0].chunks", "is missing"},
        Malformed{"", "[[sizes]]\nchunks = [0, 0]\nsigma = 0.5", "sizes[0].chunks", "has a size already"},
        Malformed{"", "[[sizes]]\nchunks = [0]", "sizes[0].sigma", "either sigma or factors"},
        Malformed{"", "[[sizes]]\nchunks = [0]\nfactors = [1, 2]", "sizes[0].factors", "2 entries for 8"},
        Malformed{"", "[[sizes]]\nchunks = [0]\nfactors = [1, 2, 3, 4, 5, 6, 7, 0]", "sizes[0].factors[7]",
                  "must be a number in"},
        Malformed{"", "[[links]]\nlatency = '1ms'", "links[0].edge", "is missing"},
        Malformed{"", "[[links]]\nedge = [0, 2]", "links[0].edge", "no edge 0 -> 2"},
        Malformed{"", "[[links]]\nedge = [0]", "links[0].edge", "two chunks"},
        Malformed{"", "[[links]]\nedge = [0, 1]\n[[links]]\nedge = [0, 1]", "links[1].edge", "given twice"},
        Malformed{"", "[link]\nbandwidth = -1", "link.bandwidth", "number in 0 to"},
        Malformed{"", "[link]\nbytes = 9223372036854775807", "link.bytes", "whole number"},
        Malformed{"", "[link]\nbandwidth = 1\nbytes = 1000000", "link.bandwidth",
                  "more than 10 minutes (line 10)"},
        Malformed{"", "[link]\nbandwidth = 1\n[[links]]\nedge = [0, 1]\nbytes = 1000000", "links[0].bytes",
                  "more than 10 minutes (line 13)"},
        Malformed{"", "[link]\njitter = 'j4'", "link.jitter", "must be j0"},
        Malformed{"", "[group]\nrule = 'common'", "group.size", "is missing"},
        Malformed{"", "[group]\nsize = 65", "group.size", "1 to 64"},
        Malformed{"", "[group]\nsize = 2\nskew = '5ms'", "group.skew", "exponential:MEAN"},
        Malformed{"", "[group]\nsize = 2\nrule = 'first-pick'", "group.rule",
                  "may never name the same one (line 11)"},
        Malformed{"", "trace = 'run.json'", "times.forward", "no meaning beside trace (line 7)"},

        Malformed{"", "[overhead]\ntask = '11h'", "overhead.task", "not a time such as"},
        Malformed{"limit = 0", "", "limit", "whole number in 1 to"},
        Malformed{"limit = [1, 2]", "", "limit", "2 entries for 3 stages"},
        Malformed{"limit = [1, 2, -3]", "", "limit[2]", "whole number"},
        Malformed{"limit = 'many'", "", "limit", "whole number"},
        Malformed{"rules = 'mine'", "", "rules", "default, paper"},
        Malformed{"rules = 'paper'\naccumulate = 'order'", "", "rules", "any order"},
        Malformed{"launch-ahead = 65", "", "launch-ahead", "1 to 64"},
        Malformed{"replicas = 1025", "", "replicas", "1 to 1024"},
        Malformed{"seed = -1", "", "seed", "whole number"},
        Malformed{"seeds = 0", "", "seeds", "1 to 1000000"},
        Malformed{"methods = [1]", "", "methods[0]", "must be a string"},
        Malformed{"methods = 'bf'", "", "methods", "must be a list"},
        Malformed{"name = 3", "", "name", "must be a string"},
        Malformed{"seed = 1\nseed = 2", "", "scenario", "line 2"},
        Malformed{"seed = 99999999999999999999", "", "scenario", "line 1"},
        Malformed{"seed = ", "", "scenario", "line 1"},
        Malformed{"name = \"unfinished", "", "scenario", "line 1"}));

TEST(ScenarioFile, APipelineIsRefusedNamingTheField) {
  const auto field_of = [](const std::string& text) -> std::string {
    try {
      (void)parse(text + "\n[times]\nforward = '1ms'\nbackward = '2ms'");
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("line "));
      return error.field();
    }
    return "accepted";
  };
  const std::string explicit_table =
      "microbatches = 2\n[pipeline]\ntopology = 'explicit'\nstage-of = [0, 1, 0]\n";
  EXPECT_EQ(field_of(""), "microbatches");
  EXPECT_EQ(field_of("microbatches = 99999999999"), "microbatches");
  EXPECT_EQ(field_of("microbatches = 2"), "pipeline");
  EXPECT_EQ(field_of("microbatches = 2\npipeline = 3"), "pipeline");
  EXPECT_EQ(field_of("microbatches = 2\n[pipeline]"), "pipeline.stages");
  EXPECT_EQ(field_of("microbatches = 2\n[pipeline]\nstages = 1e300"), "pipeline.stages");
  EXPECT_EQ(field_of("microbatches = 2\n[pipeline]\ntopology = 'ring'\nstages = 2"), "pipeline.topology");
  EXPECT_EQ(
      field_of("microbatches = 2\n[pipeline]\ntopology='interleaved'\nstages=60000\nchunks-per-stage=60000"),
      "pipeline.chunks-per-stage");
  EXPECT_EQ(field_of("microbatches = 2\n[pipeline]\ntopology = 'v'\nstages = 40000"), "pipeline.stages");
  EXPECT_EQ(field_of("microbatches = 2\n[pipeline]\ntopology='joined'\nencoders=[65535, 65535]\ndecoder=1"),
            "pipeline.encoders");
  EXPECT_EQ(field_of(explicit_table + "edges = [[0, 1], [1, 0]]"), "pipeline.edges") << "a cycle";
  EXPECT_EQ(field_of(explicit_table + "edges = [[1, 1]]"), "pipeline.edges");
  EXPECT_EQ(field_of(explicit_table + "edges = [[0, 1], [0, 1]]"), "pipeline.edges");
  EXPECT_EQ(field_of(explicit_table + "edges = [[0, 9]]"), "pipeline.edges");
  EXPECT_EQ(field_of(explicit_table + "edges = [[0]]"), "pipeline.edges[0]");
  EXPECT_EQ(field_of(explicit_table + "unsplittable = [7]"), "pipeline.unsplittable");
  EXPECT_EQ(field_of("microbatches = 2\n[pipeline]\ntopology = 'explicit'\nstage-of = [0, 2]"),
            "pipeline.edges")
      << "stage 1 has no chunk";
}

/// Every prefix of a valid file is valid or refused with an error of its own kind.
TEST(ScenarioFile, ATruncatedFileIsAnErrorOrAShorterFile) {
  const std::string whole =
      "seed = 4\n" + std::string(kChain) + "[[links]]\nedge = [0, 1]\njitter = 'tail:0.3,10'\n";
  for (std::size_t length = 0; length < whole.size(); ++length) {
    try {
      (void)parse(whole.substr(0, length));
    } catch (const ConfigError& error) {
      EXPECT_NE(error.field(), "");
    }
  }
}

TEST(ScenarioFile, TooManyTasksAreRefusedBeforeTheyCostMemory) {
  try {
    (void)parse(
        "microbatches = 16777216\n[pipeline]\nstages = 65000\n[times]\nforward='1ms'\nbackward='2ms'");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "microbatches");
  }
}

TEST(ScenarioFile, WhatCannotBeReadIsAnError) {
  for (const char* path : {"/nonexistent.toml", "/", "/dev/zero"}) {
    try {
      (void)read_scenario(path);
      FAIL() << path;
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.field(), "scenario");
    }
  }
}

}  // namespace
}  // namespace sluice::tools
