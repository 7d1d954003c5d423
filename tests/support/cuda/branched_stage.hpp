#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sluice/cuda/handles.hpp"
#include "sluice/cuda/memory.hpp"
#include "sluice/cuda/stage.hpp"
#include "sluice/graphs/random_words.hpp"

namespace sluice::test {

/// What can be wrong with a stage that is captured.
enum class StageFault {
  None,
  BakesHostValue,       ///< the forward's kernels get a value that belongs to the microbatch
  CountsCalls,          ///< the weight gradient's kernels get the number of calls so far
  LeavesBranch,         ///< a forked stream is not joined
  ReadsOldTemporary,    ///< the forward reads temporary memory that it did not write
  ForeignTemporary,     ///< the weight gradient writes to memory that is not its own
  Synchronises,         ///< the forward waits for its stream
  SynchronisesUnheard,  ///< and ignores that it is told not to
  Allocates,            ///< the backward calls cudaMalloc
  Queries,              ///< the forward asks whether its stream is idle
  Throws,               ///< the forward throws
};

/// A chunk of a chain on floats whose passes fork into three streams and join again, each with more than 20
/// nodes: h = L x, y = dropout(h * w), with fixed linear L and one weight an element. A chunk without input
/// makes up x from the microbatch; one without output takes y for its gradient.
class BranchedStage : public cuda::Stage {
 public:
  struct Options {
    /// Most elements of a microbatch.
    int elements = 64;
    std::uint32_t slots = 1;
    bool input = true;
    bool output = true;
    Chunk chunk = 0;
    StageFault fault = StageFault::None;
    /// The backward allocates on its stream, which in a graph makes memory nodes.
    bool stream_memory = false;
  };

  explicit BranchedStage(const Options& options);

  [[nodiscard]] cuda::ChunkMemory memory() const override;
  [[nodiscard]] std::span<const cuda::DeviceSpan> state() const override { return state_; }
  void prepare_task(const host::TaskContext& context, Pass pass, const cuda::TaskBuffers& buffers,
                    cudaStream_t stream) override;
  void forward(const cuda::TaskBuffers& buffers, cudaStream_t stream) override;
  void backward(const cuda::TaskBuffers& buffers, bool whole, cudaStream_t stream) override;
  void weight_grad(const cuda::TaskBuffers& buffers, cudaStream_t stream) override;

  /// Copied from the device, for which it waits.
  [[nodiscard]] std::vector<float> weight_gradient() const;
  /// For StageFault::ForeignTemporary.
  void set_foreign_memory(std::byte* memory) noexcept { foreign_ = memory; }
  [[nodiscard]] bool saves_outside_slot() const override { return saves_outside_slot_; }
  [[nodiscard]] cuda::Replay replay(Pass pass, bool /*whole*/,
                                    const cuda::TaskBuffers& /*buffers*/) const override {
    return pass == Pass::Forward ? cuda::Replay::Held : replay_;
  }
  /// From now on, of other passes than the forward.
  void set_replay(cuda::Replay replay) noexcept { replay_ = replay; }
  void set_saves_outside_slot() noexcept { saves_outside_slot_ = true; }
  /// From now on the stage has this fault, or none.
  void set_fault(StageFault fault) noexcept { options_.fault = fault; }

 private:
  static constexpr int kBranches = 3;
  struct Saved;
  struct Temporaries;

  [[nodiscard]] int elements(const cuda::SlotBuffers& slot) const;
  [[nodiscard]] Saved saved(const cuda::SlotBuffers& slot) const;
  [[nodiscard]] Temporaries temporaries(const cuda::TaskBuffers& buffers) const;
  [[nodiscard]] std::array<cudaStream_t, kBranches> fork(cudaStream_t stream) const;
  void join(cudaStream_t stream, bool all) const;
  /// Applies L in three branches; leaves its three parts.
  void enqueue_branches(const std::array<cudaStream_t, kBranches>& branches, const float* x,
                        const Temporaries& parts, int n) const;
  void misbehave(StageFault fault, cudaStream_t stream) const;

  Options options_;
  std::array<cuda::Stream, kBranches - 1> branches_;
  cuda::Event forked_;
  std::array<cuda::Event, kBranches - 1> joined_;
  cuda::DeviceMemory weights_;
  cuda::DeviceMemory weight_gradient_;
  std::array<cuda::DeviceSpan, 1> state_;
  graphs::RandomWords random_;
  std::byte* foreign_ = nullptr;
  float microbatch_ = 0;
  float calls_ = 0;
  cuda::Replay replay_ = cuda::Replay::Held;
  bool saves_outside_slot_ = false;
};

}  // namespace sluice::test
