#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sluice/task.hpp"

namespace sluice {

using StageId = std::uint16_t;
using EdgeId = std::uint16_t;

/// Activations of chunk `from` are an input of chunk `to`.
struct Edge {
  Chunk from = 0;
  Chunk to = 0;

  friend constexpr auto operator<=>(const Edge&, const Edge&) = default;
};

/// Where a chunk lives and whether its backward can be split.
struct ChunkPlacement {
  StageId stage = 0;
  /// The input gradient can run without the weight gradients.
  bool splittable = true;
};

/// The model as a DAG of chunks placed on stages, and the microbatches that pass through it.
///
/// Chunks are numbered in topological order. Validated when built, immutable afterwards.
class Pipeline {
 public:
  /// @param split_backward every backward is two tasks, Backward and WeightGrad
  /// @throws ConfigError naming `stages`, `chunks`, `edges` or `microbatches`
  Pipeline(std::vector<ChunkPlacement> chunks, std::vector<Edge> edges, Microbatch microbatches,
           bool split_backward);

  /// One chunk a stage, each feeding the next.
  static Pipeline chain(std::uint32_t stages, Microbatch microbatches, bool split_backward = false);

  /// A chain of `stages * chunks_per_stage` chunks, chunk c on stage c mod stages.
  static Pipeline interleaved(std::uint32_t stages, std::uint32_t chunks_per_stage, Microbatch microbatches,
                              bool split_backward = false);

  /// A chain of `2 * stages` chunks, down the stages and back up.
  static Pipeline v_shape(std::uint32_t stages, Microbatch microbatches, bool split_backward = false);

  /// Chains of chunks, one an encoder, that all feed the first chunk of one decoder chain; each
  /// chunk on a stage of its own.
  /// @param encoder_depths chunks of each encoder, at least one encoder
  static Pipeline joined(std::span<const std::uint32_t> encoder_depths, std::uint32_t decoder_depth,
                         Microbatch microbatches, bool split_backward = false);

  [[nodiscard]] std::uint32_t stages() const noexcept {
    return static_cast<std::uint32_t>(stage_chunks_.size());
  }
  [[nodiscard]] std::uint32_t chunks() const noexcept { return static_cast<std::uint32_t>(chunks_.size()); }
  [[nodiscard]] Microbatch microbatches() const noexcept { return microbatches_; }
  [[nodiscard]] bool split_backward() const noexcept { return split_backward_; }

  [[nodiscard]] std::span<const Edge> edges() const noexcept { return edges_; }
  [[nodiscard]] StageId stage_of(Chunk chunk) const { return chunks_[chunk].stage; }
  [[nodiscard]] bool splittable(Chunk chunk) const { return chunks_[chunk].splittable; }
  /// The stage's chunks, ascending.
  [[nodiscard]] std::span<const Chunk> chunks_of(StageId stage) const { return stage_chunks_[stage]; }
  /// Edges that end in the chunk, ascending by id.
  [[nodiscard]] std::span<const EdgeId> in_edges(Chunk chunk) const { return in_edges_[chunk]; }
  /// Edges that start from the chunk, ascending by id.
  [[nodiscard]] std::span<const EdgeId> out_edges(Chunk chunk) const { return out_edges_[chunk]; }
  /// Edges on the longest way from each chunk to one without successor.
  [[nodiscard]] std::vector<std::uint32_t> hops_to_end() const;
  /// The same pipeline with another choice of split.
  [[nodiscard]] Pipeline with_split(bool split_backward) const;

 private:
  std::vector<ChunkPlacement> chunks_;
  std::vector<Edge> edges_;
  Microbatch microbatches_;
  bool split_backward_;
  std::vector<std::vector<Chunk>> stage_chunks_;
  std::vector<std::vector<EdgeId>> in_edges_;
  std::vector<std::vector<EdgeId>> out_edges_;
};

}  // namespace sluice
