#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "sluice/cuda/handles.hpp"
#include "sluice/cuda/slot_memory.hpp"
#include "sluice/cuda/stage.hpp"
#include "sluice/cuda/task_code.hpp"
#include "sluice/graphs/captured_task.hpp"
#include "sluice/graphs/manifest.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/stage_tasks.hpp"

namespace sluice::graphs {

class Rehearsal;

/// What a cache has done since it was made.
struct CacheStatistics {
  std::uint64_t captures = 0;
  std::uint64_t instantiations = 0;
  /// Graphs captured again whose nodes and edges were the same, so that only parameters were exchanged.
  std::uint64_t updates = 0;
  std::uint64_t launches = 0;
  /// Tasks without a graph, put on the stream call by call.
  std::uint64_t eager = 0;
  std::uint64_t evictions = 0;
};

/// Captures the work of a stage's tasks into CUDA graphs, and launches them.
///
/// A graph belongs to a (chunk, pass, slot) and to the shapes of the tensors that the pass reads. The shapes
/// that the code gave to what it writes when it was captured are given again at each launch.
///
/// Only the rank's own thread calls a cache, with the stage's device as its current one.
class GraphCache final : public cuda::TaskCode {
 public:
  struct Options {
    std::uint32_t rank = 0;
    /// Runs call by call before a capture: libraries initialise themselves in them.
    int warm_ups = 2;
    /// Most graphs held; the least recently launched that is not on the device goes first. 0 for no bound.
    std::uint32_t most_graphs = 0;
    bool verify = true;
    /// Difference between a replay and a run call by call that passes, as a part of the largest value in the
    /// same tensor. Where runs call by call differ from each other, four times as much as they do passes too;
    /// where they differ by more than a twentieth, nothing can be verified, and that is an error.
    double tolerance = 0;
    /// Fill inputs and output gradients with values of our own for the runs that verify.
    bool fill_inputs = true;
    /// A shape that was not captured ahead: run call by call, or captured (neither warmed up nor verified)
    /// when it comes.
    bool capture_unseen = false;
    /// As in the dispatcher's configuration: a graph uses the temporary memory of its pass's lane.
    cuda::PassLanes lanes = cuda::kOneLane;
  };

  /// The place on the completion board of a launch: the executor's `place_of`.
  using PlaceOf = std::function<std::uint32_t(const Launch&)>;

  /// @param code by chunk of the stage, ascending; outlives the cache, as do the memory and the pipeline
  /// @throws ConfigError naming `code` or `most_graphs`; CudaError
  GraphCache(const Pipeline& pipeline, StageId stage, std::vector<cuda::Stage*> code,
             cuda::SlotMemory& memory, const Options& options);
  /// Precondition: none of its graphs is on the device.
  ~GraphCache() override;
  GraphCache(const GraphCache&) = delete;
  GraphCache& operator=(const GraphCache&) = delete;

  /// Captures every (chunk, pass, slot) with the shapes that the slots have now, and verifies each graph.
  /// What is held for these shapes is captured again. The contents of the slots are lost; the stages' state
  /// is as before. Waits for the device; nothing of the stage may be on it.
  /// @param progress called after each with the number done and that of all; may be empty
  /// @throws CaptureError: what the capture forbids, memory that runs out, a replay that is wrong;
  ///         ConfigError naming `most_graphs` if it is below the number of tasks; CudaError
  void capture_all(cuda::CompletionBoard& board, const PlaceOf& place_of,
                   const std::function<void(std::uint32_t, std::uint32_t)>& progress = {});

  /// @throws CudaError naming the task if its graph cannot be launched; CaptureError; what the stage throws
  void enqueue(const Launch& launch, std::uint32_t place, const cuda::CompletionBoard& board,
               cudaStream_t stream) override;

  /// The graphs held, in no order that lasts.
  [[nodiscard]] const std::vector<CapturedTask>& captured() const noexcept { return captured_; }
  /// The graph in Graphviz's language.
  /// @param index into `captured()`
  /// @throws CudaError; Error if no temporary file can be written
  [[nodiscard]] std::string dot(std::size_t index) const;
  /// What is held, in order of key and bucket.
  /// @param device its name
  [[nodiscard]] Manifest manifest(const std::string& device) const;
  [[nodiscard]] const CacheStatistics& statistics() const noexcept { return statistics_; }
  /// On which it warms up, captures and verifies.
  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_.get(); }
  /// What is captured ahead of each chunk and slot, in order.
  [[nodiscard]] std::vector<CaptureKey> tasks() const;

 private:
  /// The device side of an entry of `captured_`.
  struct Held {
    cuda::Graph graph;
    cuda::GraphExec exec;
    std::uint32_t place = 0;
    const cuda::CompletionBoard* board = nullptr;
    std::uint64_t last_launch = 0;
    /// Of the tensors that the pass writes.
    std::vector<TensorShape> written;
  };
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  [[nodiscard]] Lane lane_of(Pass pass) const { return options_.lanes[static_cast<std::size_t>(pass)]; }
  [[nodiscard]] std::vector<std::uint32_t>& graphs_of(const CaptureKey& key);
  /// kNone if there is no graph for the shapes that the slot has now.
  [[nodiscard]] std::uint32_t find(const CaptureKey& key, Lane lane, const cuda::SlotBuffers& slot);
  [[nodiscard]] std::uint32_t find(const CaptureKey& key, Lane lane, const std::vector<TensorShape>& shapes);
  void launch_graph(std::uint32_t index, const Launch& launch, cuda::SlotBuffers& slot, cudaStream_t stream);

  void capture_ahead(const CaptureKey& key, std::uint32_t place, cuda::CompletionBoard& board);
  /// Captures and instantiates, in place of what is held for the same shapes; says at which index, or kNone
  /// if as many as may be held are all on the device.
  std::uint32_t capture(const CaptureKey& key, Lane lane, std::uint32_t place,
                        const cuda::CompletionBoard& board);
  /// @param was the graph to update, if it can be
  [[nodiscard]] cuda::GraphExec instantiate(cudaGraph_t graph, cuda::GraphExec was);
  void verify(std::uint32_t index, const Rehearsal& rehearsal, cuda::CompletionBoard& board);
  void replay(const Held& held, cuda::CompletionBoard& board) const;

  /// False if as many as may be held are all on the device.
  [[nodiscard]] bool make_room();
  std::uint32_t add(CapturedTask task, Held held);
  void forget(std::uint32_t index);
  [[nodiscard]] std::uint32_t bucket_of(const CaptureKey& key, const std::vector<TensorShape>& shapes);

  StageTasks tasks_;
  const Pipeline& pipeline_;
  std::vector<cuda::Stage*> code_;
  cuda::SlotMemory& memory_;
  Options options_;
  cuda::Stream stream_;
  std::vector<CapturedTask> captured_;
  std::vector<Held> held_;
  /// By position, kind of task and slot: indices of `captured_`.
  std::vector<std::vector<std::uint32_t>> table_;
  /// By position, first those of the forwards, then those of the other passes.
  std::vector<std::array<std::vector<std::vector<TensorShape>>, 2>> buckets_;
  std::uint64_t launch_count_ = 0;
  CacheStatistics statistics_;
};

}  // namespace sluice::graphs
