#include "sluice/cuda/eager_code.hpp"

#include <fmt/format.h>

#include <utility>

#include "sluice/error.hpp"

namespace sluice::cuda {

EagerCode::EagerCode(const Pipeline& pipeline, StageId stage, std::vector<cuda::Stage*> code,
                     SlotMemory& memory, std::uint32_t rank)
    : tasks_(pipeline, stage), code_(std::move(code)), memory_(memory), rank_(rank) {
  if (code_.size() != tasks_.chunks()) {
    throw ConfigError("stages", fmt::format("{} given for the {} chunks of stage {}", code_.size(),
                                            tasks_.chunks(), stage));
  }
}

void EagerCode::enqueue(const Launch& launch, std::uint32_t place, const CompletionBoard& board,
                        cudaStream_t stream) {
  const std::uint32_t position = tasks_.position(launch.task.chunk);
  const TaskBuffers buffers = task_buffers(memory_, position, launch.slot, launch.lane);
  Stage& code = *code_[position];
  board.enqueue_start(place, stream);
  code.prepare_task({rank_, launch.iteration, launch.task.microbatch, launch.slot, launch.forward_only},
                    launch.task.pass, buffers, stream);
  enqueue_pass(code, launch.task.pass, launch.whole, buffers, stream);
  board.enqueue_end(place, stream);
}

TaskBuffers task_buffers(SlotMemory& memory, std::uint32_t position, Slot slot, Lane lane) {
  if (slot >= memory.slots())
    throw Error(fmt::format("slot {} is not one of the {} that have memory", slot, memory.slots()));
  const TaskBuffers buffers{memory.at(position, slot), memory.temporary(lane), memory.bytes().temporary};
  if (buffers.temporary == nullptr && buffers.temporary_bytes > 0)
    throw Error("its lane is not one of those that have temporary memory");
  return buffers;
}

void enqueue_pass(cuda::Stage& code, Pass pass, bool whole, const TaskBuffers& buffers, cudaStream_t stream) {
  switch (pass) {
    case Pass::Forward:
      return code.forward(buffers, stream);
    case Pass::Backward:
      return code.backward(buffers, whole, stream);
    case Pass::WeightGrad:
      return code.weight_grad(buffers, stream);
  }
}

}  // namespace sluice::cuda
