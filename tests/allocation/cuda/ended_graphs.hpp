#pragma once

#include "cuda/filling_stage.hpp"
#include "sluice/cuda/slot_memory.hpp"
#include "sluice/cuda/task_code.hpp"
#include "sluice/graphs/graph_cache.hpp"
#include "sluice/pipeline.hpp"

namespace sluice::test {

/// A stage's tasks by captured graphs whose launches no device hears of, and which have ended then. A program
/// with ended_graphs.cpp has a `cudaGraphLaunch` that does nothing: what is left is what a cache of graphs
/// does for a task by itself.
class EndedGraphs final : public cuda::TaskCode {
 public:
  /// Of a stage with one chunk, not at the pipeline's ends.
  EndedGraphs(const Pipeline& pipeline, StageId stage, std::uint32_t slots);

  /// @throws CaptureError
  void capture(cuda::CompletionBoard& board, const graphs::GraphCache::PlaceOf& place_of) {
    cache_.capture_all(board, place_of);
  }
  void enqueue(const Launch& launch, std::uint32_t place, const cuda::CompletionBoard& board,
               cudaStream_t stream) override {
    cache_.enqueue(launch, place, board, stream);
    ++board.mark(place)->ended;
  }
  [[nodiscard]] const graphs::CacheStatistics& statistics() const noexcept { return cache_.statistics(); }

 private:
  FillingStage stage_;
  cuda::SlotMemory memory_;
  graphs::GraphCache cache_;
};

}  // namespace sluice::test
