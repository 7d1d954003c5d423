#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "sluice/cuda/cuda_error.hpp"
#include "sluice/cuda/handles.hpp"
#include "sluice/cuda/ipc_transport.hpp"
#include "sluice/cuda/slot_memory.hpp"
#include "sluice/host/slot_buffers.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/process/bootstrap.hpp"
#include "sluice/stage_tasks.hpp"

namespace sluice::test {

/// So many doubles at most.
inline TensorShape vector_shape(std::int64_t elements) {
  TensorShape shape;
  shape.dtype_code = 2;
  shape.dtype_bits = 64;
  shape.rank = 1;
  shape.extent[0] = elements;
  return shape;
}

/// A stage's slots on the device: every message is vectors of doubles. Ranks and stages have the same
/// numbers.
class DeviceSlots {
 public:
  using Payload = std::vector<std::vector<double>>;

  struct Size {
    std::uint32_t slots = 0;
    std::size_t tensors = 1;
    std::int64_t elements = 1;
  };

  DeviceSlots(const Pipeline& pipeline, StageId stage, const Size& size,
              const cuda::MemorySource& block_source = {})
      : pipeline_(pipeline),
        stage_(stage),
        layouts_(pipeline.edges().size(), cuda::EdgeLayout(size.tensors, vector_shape(size.elements))),
        chunks_(pipeline.chunks_of(stage).size()),
        ranks_(pipeline.stages()),
        slots_({pipeline, stage, layouts_, chunks_, cuda::kOneLane, block_source}, size.slots) {
    std::iota(ranks_.begin(), ranks_.end(), 0);
  }

  [[nodiscard]] cuda::SlotMemory& slots() { return slots_; }

  /// Into the slot of the message's sender.
  void put(const MessageId& id, Slot slot, const Payload& payload) {
    std::vector<cuda::SlotTensor>& tensors = at(id, slot, true);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      tensors[i].shape = vector_shape(static_cast<std::int64_t>(payload[i].size()));
      copy(tensors[i].data, payload[i].data(), payload[i].size() * sizeof(double), cudaMemcpyHostToDevice);
    }
    wait();
  }
  /// Out of the slot of its receiver.
  [[nodiscard]] Payload get(const MessageId& id, Slot slot) {
    Payload payload;
    for (const cuda::SlotTensor& tensor : at(id, slot, false)) {
      payload.emplace_back(tensor.shape.extent[0]);
      copy(payload.back().data(), tensor.data, payload.back().size() * sizeof(double),
           cudaMemcpyDeviceToHost);
    }
    wait();
    return payload;
  }

 protected:
  [[nodiscard]] const std::vector<std::uint32_t>& rank_of_stage() const { return ranks_; }
  [[nodiscard]] const Clock& clock() const { return clock_; }
  [[nodiscard]] const std::vector<cuda::EdgeLayout>& layouts() const { return layouts_; }

 private:
  /// On a stream of the rank's own: it orders nothing that the transport has to order.
  void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    if (bytes == 0) return;
    cuda::check(cudaMemcpyAsync(to, from, bytes, kind, stream_.get()), "copying a payload");
  }
  void wait() { cuda::check(cudaStreamSynchronize(stream_.get()), "waiting for a payload"); }

  std::vector<cuda::SlotTensor>& at(const MessageId& id, Slot slot, bool outgoing) {
    const Edge& edge = pipeline_.edges()[id.edge];
    const StageTasks tasks(pipeline_, stage_);
    const bool at_tail = (id.direction == Direction::Activation) == outgoing;
    if (at_tail) {
      cuda::SlotBuffers& buffers = slots_.at(tasks.position(edge.from), slot);
      auto& tensors = outgoing ? buffers.outputs : buffers.output_grads;
      return tensors[host::place_of(pipeline_.out_edges(edge.from), id.edge)];
    }
    cuda::SlotBuffers& buffers = slots_.at(tasks.position(edge.to), slot);
    auto& tensors = outgoing ? buffers.input_grads : buffers.inputs;
    return tensors[host::place_of(pipeline_.in_edges(edge.to), id.edge)];
  }

  const Pipeline& pipeline_;
  StageId stage_;
  std::vector<cuda::EdgeLayout> layouts_;
  std::vector<cuda::ChunkMemory> chunks_;
  std::vector<std::uint32_t> ranks_;
  cuda::SlotMemory slots_;
  cuda::Stream stream_ = cuda::make_stream();
  host::SteadyClock clock_;
};

/// A stage's slots and the transport between the devices of a host.
class DeviceRank : public DeviceSlots {
 public:
  DeviceRank(const Pipeline& pipeline, StageId stage, const Size& size, const cuda::AllGather& all_gather,
             const cuda::IpcOptions& options = {})
      : DeviceSlots(pipeline, stage, size),
        transport_(cuda::IpcMember{pipeline, stage, rank_of_stage(), slots(), clock()}, all_gather, options) {
  }

  [[nodiscard]] cuda::IpcTransport& transport() { return transport_; }
  [[nodiscard]] Transport& endpoint() { return transport_; }
  /// What is under way gets on.
  static void pass_time() { cuda::check(cudaDeviceSynchronize(), "waiting for the device"); }
  /// Until something may have happened, at the latest then.
  void sleep_until(Time deadline) { transport_.wake().wait_until(deadline); }

 private:
  cuda::IpcTransport transport_;
};

/// What a transport connects by.
inline cuda::AllGather all_gather_of(process::Bootstrap& bootstrap) {
  return [&bootstrap](std::span<const std::byte> own) { return bootstrap.all_gather(own); };
}

}  // namespace sluice::test
