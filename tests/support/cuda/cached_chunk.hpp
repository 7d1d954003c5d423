#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cuda/branched_stage.hpp"
#include "sluice/cuda/completion_board.hpp"
#include "sluice/cuda/slot_memory.hpp"
#include "sluice/graphs/graph_cache.hpp"
#include "sluice/pipeline.hpp"

namespace sluice::test {

/// Which chunk of a chain of three.
enum class ChainEnd { First, Middle, Last };

/// A chunk of a chain on a device, with its memory and, in front of its code, a cache of graphs.
class CachedChunk {
 public:
  static constexpr Microbatch kMicrobatches = 12;

  struct Options {
    ChainEnd end = ChainEnd::Middle;
    int elements = 64;
    std::uint32_t slots = 2;
    bool split = false;
    StageFault fault = StageFault::None;
    graphs::GraphCache::Options cache{};
    bool stream_memory = false;
  };

  explicit CachedChunk(const Options& options);

  /// Captures everything.
  void capture() { capture({}); }
  void capture(const std::function<void(std::uint32_t, std::uint32_t)>& progress);

  [[nodiscard]] Launch launch_of(Pass pass, Microbatch microbatch, Slot slot, bool whole,
                                 std::uint64_t iteration = 0) const;
  [[nodiscard]] std::uint32_t place_of(const Launch& launch) const;
  /// Puts a task on the stream, through the cache or call by call.
  void enqueue(cuda::TaskCode& code, const Launch& launch, cudaStream_t stream);
  /// Also waits for it.
  void run(cuda::TaskCode& code, const Launch& launch);

  /// Gives the microbatch's input and output gradient, made from its number, so many elements.
  void arrive(Microbatch microbatch, Slot slot, int elements);
  [[nodiscard]] std::vector<float> read(const cuda::SlotTensor& tensor) const;

  [[nodiscard]] Chunk chunk() const noexcept { return static_cast<Chunk>(options_.end); }
  [[nodiscard]] cuda::SlotBuffers& slot(Slot slot) { return memory_->at(0, slot); }
  [[nodiscard]] cuda::SlotMemory& memory() noexcept { return *memory_; }
  [[nodiscard]] BranchedStage& stage() noexcept { return stage_; }
  [[nodiscard]] graphs::GraphCache& cache() noexcept { return *cache_; }
  [[nodiscard]] cuda::TaskCode& eager() noexcept { return *eager_; }
  [[nodiscard]] cuda::CompletionBoard& board() noexcept { return board_; }
  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_.get(); }
  [[nodiscard]] const Pipeline& pipeline() const noexcept { return pipeline_; }

 private:
  void write(cuda::SlotTensor& tensor, const std::vector<float>& values) const;

  Options options_;
  Pipeline pipeline_;
  BranchedStage stage_;
  cuda::CompletionBoard board_;
  cuda::Stream stream_;
  std::unique_ptr<cuda::SlotMemory> memory_;
  std::unique_ptr<cuda::TaskCode> eager_;
  std::unique_ptr<graphs::GraphCache> cache_;
};

/// What running microbatches through a chunk computed.
struct ChunkResults {
  std::vector<std::vector<float>> outputs;
  std::vector<std::vector<float>> input_grads;
  std::vector<float> weight_gradient;

  friend bool operator==(const ChunkResults&, const ChunkResults&) = default;
};

/// Forward, backward and, if `split`, weight gradient of all microbatches, several in flight, none waited for
/// but to give its slot away; `elements` of each.
[[nodiscard]] ChunkResults run_all(CachedChunk& chunk, cuda::TaskCode& code, bool split,
                                   const std::function<int(Microbatch)>& elements);

}  // namespace sluice::test
