#include "sluice/pipeline.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "sluice/error.hpp"

namespace sluice {
namespace {

constexpr std::size_t kMaxChunks = std::numeric_limits<Chunk>::max();
constexpr Microbatch kMaxMicrobatches = 1U << 24;
/// The messages of one microbatch, activations and gradients together, are counted in a byte.
constexpr std::size_t kMaxEdgesPerChunk = 127;

void check_sizes(const std::vector<ChunkPlacement>& chunks, const std::vector<Edge>& edges,
                 Microbatch microbatches) {
  if (chunks.empty()) throw ConfigError("chunks", "a pipeline needs at least one");
  if (chunks.size() > kMaxChunks) {
    throw ConfigError("chunks",
                      std::to_string(chunks.size()) + " is more than " + std::to_string(kMaxChunks));
  }
  if (edges.size() > std::numeric_limits<EdgeId>::max()) {
    throw ConfigError("edges", std::to_string(edges.size()) + " is too many");
  }
  if (microbatches == 0) throw ConfigError("microbatches", "must be at least 1");
  if (microbatches > kMaxMicrobatches) {
    throw ConfigError("microbatches",
                      std::to_string(microbatches) + " is more than " + std::to_string(kMaxMicrobatches));
  }
}

std::string describe(const Edge& edge) {
  return "edge " + std::to_string(edge.from) + " -> " + std::to_string(edge.to);
}

void check_edges(const std::vector<ChunkPlacement>& chunks, const std::vector<Edge>& edges) {
  std::vector<Edge> sorted = edges;
  std::sort(sorted.begin(), sorted.end());
  if (const auto twin = std::adjacent_find(sorted.begin(), sorted.end()); twin != sorted.end()) {
    throw ConfigError("edges", describe(*twin) + " is given twice");
  }
  for (const Edge& edge : edges) {
    if (edge.from >= chunks.size() || edge.to >= chunks.size()) {
      throw ConfigError("edges", describe(edge) + " names a chunk that does not exist");
    }
    if (edge.from >= edge.to) {
      throw ConfigError("edges", describe(edge) + " does not go from a lower chunk to a higher one");
    }
  }
}

std::uint32_t checked_stages(std::uint32_t stages) {
  if (stages == 0) throw ConfigError("stages", "must be at least 1");
  if (stages > kMaxChunks) throw ConfigError("stages", std::to_string(stages) + " is too many");
  return stages;
}

/// A chain of chunks whose stages are given in order.
template <typename StageOf>
Pipeline make_chain(std::uint32_t stages, std::uint64_t chunks, StageOf stage_of, Microbatch microbatches,
                    bool split_backward) {
  checked_stages(stages);
  if (chunks > kMaxChunks) throw ConfigError("chunks", std::to_string(chunks) + " is too many");
  std::vector<ChunkPlacement> placements;
  std::vector<Edge> edges;
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    placements.push_back({static_cast<StageId>(stage_of(chunk)), true});
    if (chunk > 0) edges.push_back({static_cast<Chunk>(chunk - 1), static_cast<Chunk>(chunk)});
  }
  return {std::move(placements), std::move(edges), microbatches, split_backward};
}

}  // namespace

Pipeline::Pipeline(std::vector<ChunkPlacement> chunks, std::vector<Edge> edges, Microbatch microbatches,
                   bool split_backward)
    : chunks_(std::move(chunks)),
      edges_(std::move(edges)),
      microbatches_(microbatches),
      split_backward_(split_backward) {
  check_sizes(chunks_, edges_, microbatches_);
  check_edges(chunks_, edges_);
  in_edges_.resize(chunks_.size());
  out_edges_.resize(chunks_.size());
  for (std::size_t edge = 0; edge < edges_.size(); ++edge) {
    out_edges_[edges_[edge].from].push_back(static_cast<EdgeId>(edge));
    in_edges_[edges_[edge].to].push_back(static_cast<EdgeId>(edge));
  }
  for (std::size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    const ChunkPlacement& placement = chunks_[chunk];
    if (placement.stage >= stage_chunks_.size()) stage_chunks_.resize(placement.stage + std::size_t{1});
    stage_chunks_[placement.stage].push_back(static_cast<Chunk>(chunk));
    if (split_backward_ && !placement.splittable) {
      throw ConfigError("chunks", "chunk " + std::to_string(chunk) +
                                      " cannot be split, but the pipeline splits every backward");
    }
    if (in_edges_[chunk].size() > kMaxEdgesPerChunk || out_edges_[chunk].size() > kMaxEdgesPerChunk) {
      throw ConfigError("edges", "chunk " + std::to_string(chunk) + " has more than " +
                                     std::to_string(kMaxEdgesPerChunk) + " on one side");
    }
  }
  for (std::size_t stage = 0; stage < stage_chunks_.size(); ++stage) {
    if (stage_chunks_[stage].empty()) {
      throw ConfigError("stages", "stage " + std::to_string(stage) + " has no chunk");
    }
  }
}

Pipeline Pipeline::chain(std::uint32_t stages, Microbatch microbatches, bool split_backward) {
  return make_chain(
      stages, stages, [](std::uint32_t chunk) { return chunk; }, microbatches, split_backward);
}

Pipeline Pipeline::interleaved(std::uint32_t stages, std::uint32_t chunks_per_stage, Microbatch microbatches,
                               bool split_backward) {
  checked_stages(stages);
  if (chunks_per_stage == 0) throw ConfigError("chunks-per-stage", "must be at least 1");
  return make_chain(
      stages, std::uint64_t{stages} * chunks_per_stage,
      [stages](std::uint32_t chunk) { return chunk % stages; }, microbatches, split_backward);
}

Pipeline Pipeline::v_shape(std::uint32_t stages, Microbatch microbatches, bool split_backward) {
  checked_stages(stages);
  return make_chain(
      stages, std::uint64_t{stages} * 2,
      [stages](std::uint32_t chunk) { return chunk < stages ? chunk : 2 * stages - 1 - chunk; }, microbatches,
      split_backward);
}

Pipeline Pipeline::joined(std::span<const std::uint32_t> encoder_depths, std::uint32_t decoder_depth,
                          Microbatch microbatches, bool split_backward) {
  if (encoder_depths.empty()) throw ConfigError("encoders", "at least one is needed");
  if (decoder_depth == 0) throw ConfigError("decoder", "needs at least one chunk");
  std::vector<ChunkPlacement> placements;
  std::vector<Edge> edges;
  std::vector<Chunk> ends;
  const auto append_chain = [&](std::uint32_t depth) {
    for (std::uint32_t i = 0; i < depth; ++i) {
      const auto chunk = static_cast<Chunk>(placements.size());
      placements.push_back({static_cast<StageId>(chunk), true});
      if (i > 0) edges.push_back({static_cast<Chunk>(chunk - 1), chunk});
    }
    return static_cast<Chunk>(placements.size() - 1);
  };
  for (const std::uint32_t depth : encoder_depths) {
    if (depth == 0) throw ConfigError("encoders", "every encoder needs at least one chunk");
    ends.push_back(append_chain(depth));
  }
  const auto join = static_cast<Chunk>(placements.size());
  append_chain(decoder_depth);
  for (const Chunk end : ends) edges.push_back({end, join});
  return {std::move(placements), std::move(edges), microbatches, split_backward};
}

std::vector<std::uint32_t> Pipeline::hops_to_end() const {
  std::vector<std::uint32_t> hops(chunks(), 0);
  for (std::uint32_t chunk = chunks(); chunk-- > 0;) {
    for (const EdgeId id : out_edges(static_cast<Chunk>(chunk)))
      hops[chunk] = std::max(hops[chunk], hops[edges_[id].to] + 1);
  }
  return hops;
}

Pipeline Pipeline::with_split(bool split_backward) const {
  return {chunks_, edges_, microbatches_, split_backward};
}

}  // namespace sluice
