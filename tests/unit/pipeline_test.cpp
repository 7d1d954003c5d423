#include "sluice/pipeline.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>

#include "sluice/error.hpp"

namespace sluice {
namespace {

using Chunks = std::vector<ChunkPlacement>;
using Edges = std::vector<Edge>;

std::string refusal(const std::function<Pipeline()>& build) {
  try {
    (void)build();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

std::string refusal(Chunks chunks, Edges edges, Microbatch microbatches = 1, bool split = false) {
  return refusal([&] { return Pipeline(chunks, edges, microbatches, split); });
}

std::vector<StageId> placements(const Pipeline& pipeline) {
  std::vector<StageId> stages;
  for (std::uint32_t chunk = 0; chunk < pipeline.chunks(); ++chunk)
    stages.push_back(pipeline.stage_of(static_cast<Chunk>(chunk)));
  return stages;
}

TEST(Pipeline, AChainHasOneChunkAStage) {
  const Pipeline pipeline = Pipeline::chain(3, 5, true);
  EXPECT_EQ(placements(pipeline), (std::vector<StageId>{0, 1, 2}));
  EXPECT_EQ(Edges(pipeline.edges().begin(), pipeline.edges().end()), (Edges{{0, 1}, {1, 2}}));
  EXPECT_EQ(pipeline.microbatches(), 5U);
  EXPECT_TRUE(pipeline.split_backward());
}

TEST(Pipeline, InterleavedChunksGoRoundTheStages) {
  EXPECT_EQ(placements(Pipeline::interleaved(2, 3, 1)), (std::vector<StageId>{0, 1, 0, 1, 0, 1}));
}

TEST(Pipeline, AVGoesDownTheStagesAndBackUp) {
  EXPECT_EQ(placements(Pipeline::v_shape(3, 1)), (std::vector<StageId>{0, 1, 2, 2, 1, 0}));
}

TEST(Pipeline, EncodersJoinAtTheFirstChunkOfTheDecoder) {
  const std::array<std::uint32_t, 2> depths{2, 1};
  const Pipeline pipeline = Pipeline::joined(depths, 2, 1);
  EXPECT_EQ(Edges(pipeline.edges().begin(), pipeline.edges().end()), (Edges{{0, 1}, {3, 4}, {1, 3}, {2, 3}}));
  EXPECT_EQ(pipeline.in_edges(3).size(), 2U);
  EXPECT_EQ(pipeline.stages(), 5U);
}

TEST(Pipeline, KnowsChunksAndEdgesOfEachSide) {
  const Pipeline pipeline({{1}, {0}, {1}}, {{0, 2}, {1, 2}}, 1, false);
  EXPECT_EQ(std::vector<Chunk>(pipeline.chunks_of(1).begin(), pipeline.chunks_of(1).end()),
            (std::vector<Chunk>{0, 2}));
  EXPECT_EQ(pipeline.in_edges(2)[1], 1U);
  EXPECT_EQ(pipeline.out_edges(0)[0], 0U);
  EXPECT_TRUE(pipeline.out_edges(2).empty());
}

TEST(Pipeline, WithSplitChangesOnlyTheSplit) {
  const Pipeline split = Pipeline::v_shape(2, 3).with_split(true);
  EXPECT_TRUE(split.split_backward());
  EXPECT_EQ(split.chunks(), 4U);
}

TEST(PipelineErrors, NameTheFieldAndTheFault) {
  EXPECT_EQ(refusal([] { return Pipeline::chain(0, 1); }), "stages: must be at least 1");
  EXPECT_EQ(refusal([] { return Pipeline::chain(1, 0); }), "microbatches: must be at least 1");
  EXPECT_EQ(refusal([] { return Pipeline::interleaved(2, 0, 1); }), "chunks-per-stage: must be at least 1");
  EXPECT_EQ(refusal([] { return Pipeline::joined({}, 1, 1); }), "encoders: at least one is needed");
  EXPECT_EQ(refusal({}, {}), "chunks: a pipeline needs at least one");
  EXPECT_EQ(refusal({{0}, {2}}, {}), "stages: stage 1 has no chunk");
  EXPECT_EQ(refusal({{0}, {1}}, {{0, 1}, {0, 1}}), "edges: edge 0 -> 1 is given twice");
  EXPECT_EQ(refusal({{0}, {1}}, {{0, 2}}), "edges: edge 0 -> 2 names a chunk that does not exist");
  EXPECT_EQ(refusal({{0}, {1}}, {{1, 0}}),
            "edges: edge 1 -> 0 does not go from a lower chunk to a higher one");
  EXPECT_EQ(refusal({{0}, {1}}, {{1, 1}}),
            "edges: edge 1 -> 1 does not go from a lower chunk to a higher one");
  EXPECT_EQ(refusal({{0, false}}, {}, 1, true),
            "chunks: chunk 0 cannot be split, but the pipeline splits every backward");
}

TEST(PipelineErrors, SizesThatCannotBeNumberedAreRefused) {
  EXPECT_EQ(refusal([] { return Pipeline::chain(70'000, 1); }), "stages: 70000 is too many");
  EXPECT_EQ(refusal([] { return Pipeline::interleaved(1000, 1000, 1); }), "chunks: 1000000 is too many");
  EXPECT_EQ(refusal([] { return Pipeline::chain(1, 20'000'000); }),
            "microbatches: 20000000 is more than 16777216");
}

TEST(PipelineErrors, MoreEdgesAtAChunkThanAreCountedAreRefused) {
  const auto fan = [](std::uint32_t width) {
    Edges edges;
    for (std::uint32_t i = 1; i <= width; ++i) edges.push_back({0, static_cast<Chunk>(i)});
    return refusal(Chunks(width + 1, ChunkPlacement{0}), edges);
  };
  EXPECT_EQ(fan(127), "accepted");
  EXPECT_EQ(fan(128), "edges: chunk 0 has more than 127 on one side");
}

}  // namespace
}  // namespace sluice
