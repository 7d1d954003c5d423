#include "task_memory.hpp"

#include <dlpack/dlpack.h>
#include <fmt/format.h>

#include <utility>

#include "sluice/cuda/cuda_error.hpp"

namespace sluice::graphs {
namespace {

void copy(std::byte* to, const std::byte* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  cuda::check(cudaMemcpyAsync(to, from, bytes, kind, stream), "copying what a task may change");
}

}  // namespace

TaskMemory::TaskMemory(const cuda::SlotBuffers& slot, std::span<const cuda::DeviceSpan> state) {
  add(slot.inputs, "input");
  add(slot.outputs, "output");
  add(slot.output_grads, "output gradient");
  add(slot.input_grads, "input gradient");
  add({slot.saved, slot.saved_bytes, kDLOpaqueHandle}, "the saved memory", false);
  for (std::size_t i = 0; i < state.size(); ++i) add(state[i], fmt::format("state {}", i), true);
  copy_ = cuda::DeviceMemory(bytes_, "a copy of what a task may change");
}

void TaskMemory::add(const std::vector<std::vector<cuda::SlotTensor>>& edges, const char* name) {
  for (std::size_t edge = 0; edge < edges.size(); ++edge) {
    for (std::size_t i = 0; i < edges[edge].size(); ++i) {
      const cuda::SlotTensor& tensor = edges[edge][i];
      add({tensor.data, tensor.capacity, tensor.shape.dtype_code, tensor.shape.dtype_bits},
          fmt::format("{} {} of edge {}", name, i, edge), false);
    }
  }
}

void TaskMemory::add(const cuda::DeviceSpan& memory, std::string name, bool state) {
  if (memory.bytes == 0) return;
  regions_.push_back({memory, std::move(name), state});
  bytes_ += memory.bytes;
}

void TaskMemory::save(cudaStream_t stream) const {
  std::byte* to = copy_.data();
  for (const Region& region : regions_) {
    copy(to, region.memory.data, region.memory.bytes, cudaMemcpyDeviceToDevice, stream);
    to += region.memory.bytes;
  }
}

void TaskMemory::restore(cudaStream_t stream) const {
  const std::byte* from = copy_.data();
  for (const Region& region : regions_) {
    copy(region.memory.data, from, region.memory.bytes, cudaMemcpyDeviceToDevice, stream);
    from += region.memory.bytes;
  }
}

void TaskMemory::restore_state(cudaStream_t stream) const {
  const std::byte* from = copy_.data();
  for (const Region& region : regions_) {
    if (region.state) copy(region.memory.data, from, region.memory.bytes, cudaMemcpyDeviceToDevice, stream);
    from += region.memory.bytes;
  }
}

TaskMemory::Contents TaskMemory::contents(cudaStream_t stream) const {
  Contents contents(bytes_);
  std::byte* to = contents.data();
  for (const Region& region : regions_) {
    copy(to, region.memory.data, region.memory.bytes, cudaMemcpyDeviceToHost, stream);
    to += region.memory.bytes;
  }
  cuda::check(cudaStreamSynchronize(stream), "waiting for a task's results");
  return contents;
}

Difference TaskMemory::difference(const Contents& expected, const Contents& found) const {
  Difference difference;
  std::size_t at = 0;
  for (const Region& region : regions_) {
    const cuda::DeviceSpan& memory = region.memory;
    add_difference({&expected[at], memory.bytes}, {&found[at], memory.bytes}, memory.dtype_code,
                   memory.dtype_bits, region.name, difference);
    at += memory.bytes;
  }
  return difference;
}

}  // namespace sluice::graphs
