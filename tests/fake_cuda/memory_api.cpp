#include <string>

#include "call.hpp"
#include "capture.hpp"
#include "controls.hpp"
#include "device.hpp"
#include "graph_memory.hpp"
#include "report.hpp"
#include "settings.hpp"

namespace fakecuda {
namespace {

cudaError_t new_memory(std::size_t bytes, std::shared_ptr<Allocation>& memory) {
  const int device = current_device();
  auto& space = AddressSpace::instance();
  if (bytes > device_memory() - std::min(device_memory(), space.device_bytes(device))) {
    return cudaErrorMemoryAllocation;
  }
  memory = Allocation::device(bytes, device, MemoryKind::Device);
  if (memory == nullptr) return cudaErrorMemoryAllocation;
  space.add(memory);
  return cudaSuccess;
}

cudaError_t allocate(void** address, std::size_t bytes) {
  if (address == nullptr) return cudaErrorInvalidValue;
  if (const cudaError_t refused = captures::unsafe_call()) return refused;
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  std::shared_ptr<Allocation> memory;
  const cudaError_t error = new_memory(bytes, memory);
  if (error == cudaSuccess) *address = memory->address();
  return error;
}

cudaError_t free_memory(void* address) {
  if (address == nullptr) return cudaSuccess;
  if (const cudaError_t refused = captures::unsafe_call()) return refused;
  auto& space = AddressSpace::instance();
  const auto location = space.find(address);
  const bool known = location && location->offset == 0 && location->memory->kind() <= MemoryKind::Graph;
  if (!known || !location->memory->live()) {
    report(space.freed(address) ? "cudaFree of device memory that was freed"
                                : "cudaFree of an address that cudaMalloc did not give");
    return cudaErrorInvalidValue;
  }
  wait_for_device(location->memory->device_index());
  location->memory->set_held(false);
  if (location->memory->kind() == MemoryKind::Graph) {
    graph_memory::end(*location->memory);
  } else if (const auto memory = space.remove(address, {MemoryKind::Device})) {
    memory->end();
  }
  return cudaSuccess;
}

std::shared_ptr<Work> memory_work(cudaGraphNodeType type, std::shared_ptr<Allocation> memory) {
  auto work = std::make_shared<Work>();
  work->type = type;
  work->label = type == cudaGraphNodeTypeMemAlloc ? "allocation" : "free";
  work->memory = std::move(memory);
  return work;
}

/// A node that allocates at each launch.
cudaError_t allocate_in_graph(void** address, std::size_t bytes, cudaStream_t handle) {
  auto memory = graph_memory::plan(bytes, current_device());
  if (memory == nullptr) return cudaErrorMemoryAllocation;
  *address = memory->address();
  auto work = memory_work(cudaGraphNodeTypeMemAlloc, memory);
  work->run = [memory = memory.get()] {
    graph_memory::begin(*memory);
    return cudaSuccess;
  };
  return submit(handle, std::move(work));
}

cudaError_t allocate_in_order(void** address, std::size_t bytes, cudaStream_t handle) {
  if (address == nullptr) return cudaErrorInvalidValue;
  const auto stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (captures::capturing(*stream)) return allocate_in_graph(address, bytes, handle);
  std::shared_ptr<Allocation> memory;
  if (const cudaError_t error = new_memory(bytes, memory)) return error;
  *address = memory->address();
  auto work = memory_work(cudaGraphNodeTypeMemAlloc, memory);
  work->run = [memory] {
    memory->begin();
    return cudaSuccess;
  };
  return submit(handle, std::move(work));
}

cudaError_t free_in_order(void* address, cudaStream_t handle) {
  if (address == nullptr) return cudaSuccess;
  auto& space = AddressSpace::instance();
  const auto location = space.find(address);
  const bool known = location && location->offset == 0 && location->memory->kind() <= MemoryKind::Graph;
  if (!known) {
    report("cudaFreeAsync of an address that is not, or no longer, allocated");
    return cudaErrorInvalidValue;
  }
  auto work = memory_work(cudaGraphNodeTypeMemFree, location->memory);
  work->accesses.push_back({*location, location->memory->size(), true});
  work->run = [memory = location->memory] {
    if (memory->kind() == MemoryKind::Graph) {
      graph_memory::end(*memory);
    } else if (AddressSpace::instance().remove(memory->address(), {MemoryKind::Device}) != nullptr) {
      memory->end();
    }
    return cudaSuccess;
  };
  const auto stream = find_stream(handle);
  if (stream != nullptr && !captures::capturing(*stream)) location->memory->set_held(false);
  return submit(handle, std::move(work));
}

void describe(cudaPointerAttributes& attributes, const void* address) {
  attributes = {};
  attributes.device = -1;
  const auto location = AddressSpace::instance().find(address);
  if (!location) return;
  void* pointer = const_cast<void*>(address);
  const bool on_device = location->memory->on_device();
  attributes.type = on_device ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
  attributes.device = on_device ? location->memory->device_index() : current_device();
  attributes.devicePointer = pointer;
  attributes.hostPointer = on_device ? nullptr : pointer;
}

}  // namespace
}  // namespace fakecuda

using namespace fakecuda;  // NOLINT(google-build-using-namespace): the runtime's functions lie outside

cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  return call("cudaMalloc", [&] { return allocate(address, bytes); });
}

cudaError_t cudaFree(void* address) {
  return release_call("cudaFree", [&] { return free_memory(address); });
}

cudaError_t cudaMallocAsync(void** address, std::size_t bytes, cudaStream_t stream) {
  return call("cudaMallocAsync", [&] { return allocate_in_order(address, bytes, stream); });
}

cudaError_t cudaFreeAsync(void* address, cudaStream_t stream) {
  return release_call("cudaFreeAsync", [&] { return free_in_order(address, stream); });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return call("cudaMemGetInfo", [&] {
    const std::uint64_t used = AddressSpace::instance().device_bytes(current_device());
    *total = device_memory();
    *free = device_memory() - std::min(device_memory(), used);
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  return call("cudaPointerGetAttributes", [&] {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    describe(*attributes, address);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute, void* value) {
  return call("cudaDeviceGetGraphMemAttribute", [&] {
    const graph_memory::Usage usage = graph_memory::usage(device);
    auto& out = *static_cast<std::uint64_t*>(value);
    switch (attribute) {
      case cudaGraphMemAttrUsedMemCurrent:
        out = usage.used;
        return cudaSuccess;
      case cudaGraphMemAttrUsedMemHigh:
        out = usage.used_high;
        return cudaSuccess;
      case cudaGraphMemAttrReservedMemCurrent:
        out = usage.reserved;
        return cudaSuccess;
      case cudaGraphMemAttrReservedMemHigh:
        out = usage.reserved_high;
        return cudaSuccess;
    }
    return cudaErrorInvalidValue;
  });
}

cudaError_t cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute, void* value) {
  return call("cudaDeviceSetGraphMemAttribute", [&] {
    const bool high =
        attribute == cudaGraphMemAttrUsedMemHigh || attribute == cudaGraphMemAttrReservedMemHigh;
    if (!high || *static_cast<std::uint64_t*>(value) != 0) return cudaErrorInvalidValue;
    graph_memory::reset_high_marks(device);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGraphMemTrim(int device) {
  return call("cudaDeviceGraphMemTrim", [&] {
    graph_memory::trim(device);
    return cudaSuccess;
  });
}

std::size_t fakecuda_live_allocations() { return fakecuda_live("allocations"); }
