#pragma once

#include <cstdint>
#include <vector>

#include "sluice/cuda/slot_memory.hpp"
#include "sluice/cuda/stage.hpp"
#include "sluice/cuda/task_code.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/stage_tasks.hpp"

namespace sluice::cuda {

/// Runs a stage's code call by call.
class EagerCode final : public TaskCode {
 public:
  /// @param code by chunk of the stage, ascending; outlives this, as does the memory
  /// @throws ConfigError naming `stages`
  EagerCode(const Pipeline& pipeline, StageId stage, std::vector<cuda::Stage*> code, SlotMemory& memory,
            std::uint32_t rank);

  /// @throws Error if the launch's slot or lane has no memory, and what the code throws
  void enqueue(const Launch& launch, std::uint32_t place, const CompletionBoard& board,
               cudaStream_t stream) override;

 private:
  StageTasks tasks_;
  std::vector<cuda::Stage*> code_;
  SlotMemory& memory_;
  std::uint32_t rank_;
};

/// What a task of the chunk works on.
/// @param position of the chunk among those of the stage
/// @throws Error if the slot has no memory, or the lane no temporary memory
[[nodiscard]] TaskBuffers task_buffers(SlotMemory& memory, std::uint32_t position, Slot slot, Lane lane);

/// Enqueues the work of one pass: what a graph of it captures.
void enqueue_pass(cuda::Stage& code, Pass pass, bool whole, const TaskBuffers& buffers, cudaStream_t stream);

}  // namespace sluice::cuda
