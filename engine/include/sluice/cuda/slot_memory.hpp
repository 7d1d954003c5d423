#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sluice/cuda/memory.hpp"
#include "sluice/executor.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/transport.hpp"

namespace sluice::cuda {

/// A tensor in a slot: contiguous, row major, of a capacity that its shape of the moment may not use up.
struct SlotTensor {
  std::byte* data = nullptr;
  std::size_t capacity = 0;  ///< bytes
  TensorShape shape;
};

/// The tensors that one edge carries, in order, at their largest.
using EdgeLayout = std::vector<TensorShape>;

/// What a chunk needs besides the tensors at its edges.
struct ChunkMemory {
  std::size_t saved_bytes = 0;      ///< kept from forward to weight gradient; one a slot
  std::size_t temporary_bytes = 0;  ///< used within a task; one a lane
};

/// A chunk's memory for one microbatch in flight. Edges are counted as the chunk's own in- and out-edges.
struct SlotBuffers {
  std::vector<std::vector<SlotTensor>> inputs;
  std::vector<std::vector<SlotTensor>> outputs;
  std::vector<std::vector<SlotTensor>> output_grads;
  std::vector<std::vector<SlotTensor>> input_grads;
  std::byte* saved = nullptr;
  std::size_t saved_bytes = 0;
};

struct SlotMemoryBytes {
  std::size_t saved_per_slot = 0;  ///< everything a slot owns: edge tensors and saved activations
  std::size_t temporary = 0;       ///< shared by the tasks of a lane, one for each lane in use
  std::size_t total = 0;           ///< as allocated
};

/// The lane of each pass, as the dispatcher has it.
using PassLanes = std::array<Lane, kPasses>;
inline constexpr PassLanes kOneLane{Lane::Compute, Lane::Compute, Lane::Compute};

/// What a stage's memory is made for. What it points to outlives the call it is given to.
struct SlotMemoryPlan {
  const Pipeline& pipeline;
  StageId stage = 0;
  /// By edge of the pipeline.
  std::span<const EdgeLayout> layouts;
  /// By chunk of the stage, ascending.
  std::span<const ChunkMemory> chunks;
  PassLanes lanes = kOneLane;
  /// Of the block that holds the slots; cudaMalloc if empty.
  MemorySource block_source{};
};

/// The device memory behind a rank's slots, allocated once. Every slot can hold a microbatch of any of the
/// stage's chunks; the addresses of a (chunk, slot) never change, so graphs may be captured over them.
class SlotMemory {
 public:
  /// @throws ConfigError naming `slots`, `layouts` or `chunks`; CudaError when memory runs out, saying
  ///         how much was asked for, how much is free and which limit would fit
  SlotMemory(const SlotMemoryPlan& plan, std::uint32_t slots);
  SlotMemory(const Pipeline& pipeline, StageId stage, std::uint32_t slots,
             std::span<const EdgeLayout> layouts, std::span<const ChunkMemory> chunks)
      : SlotMemory({pipeline, stage, layouts, chunks}, slots) {}

  /// @param position of the chunk among those of the stage
  [[nodiscard]] SlotBuffers& at(std::uint32_t position, Slot slot) {
    return buffers_[position * slots_ + slot];
  }
  /// Null for a lane that no pass runs on, or if no chunk needs any.
  [[nodiscard]] std::byte* temporary(Lane lane) const noexcept;
  [[nodiscard]] std::uint32_t slots() const noexcept { return slots_; }
  [[nodiscard]] const SlotMemoryBytes& bytes() const noexcept { return bytes_; }
  /// The one allocation that holds all slots: for handing to another process. May be longer than they are, if
  /// its source made it so.
  [[nodiscard]] const DeviceMemory& block() const noexcept { return block_; }

  /// What so many slots would take.
  /// @throws ConfigError as the constructor does
  [[nodiscard]] static SlotMemoryBytes bytes_for(const SlotMemoryPlan& plan, std::uint32_t slots);
  /// Most slots whose memory fits in `budget` bytes; 0 if none does.
  /// @throws ConfigError naming `layouts` or `chunks`
  [[nodiscard]] static std::uint32_t slots_within(std::size_t budget, const SlotMemoryPlan& plan);

 private:
  std::uint32_t slots_;
  DeviceMemory block_;
  DeviceMemory temporaries_;
  std::array<std::byte*, kLanes> temporary_{};
  std::vector<SlotBuffers> buffers_;
  SlotMemoryBytes bytes_;
};

}  // namespace sluice::cuda
