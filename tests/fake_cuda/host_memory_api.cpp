#include <string>

#include "call.hpp"
#include "capture.hpp"
#include "device.hpp"
#include "report.hpp"

namespace fakecuda {
namespace {

constexpr unsigned kHostAllocFlags = cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
constexpr unsigned kRegisterFlags =
    cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterIoMemory | cudaHostRegisterReadOnly;

cudaError_t allocate(void** address, std::size_t bytes, unsigned flags) {
  if (address == nullptr || (flags & ~kHostAllocFlags) != 0U) return cudaErrorInvalidValue;
  if (const cudaError_t refused = captures::unsafe_call()) return refused;
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  auto memory = Allocation::host(bytes);
  if (memory == nullptr) return cudaErrorMemoryAllocation;
  *address = memory->address();
  AddressSpace::instance().add(std::move(memory));
  return cudaSuccess;
}

cudaError_t release(const char* function, void* address, MemoryKind kind) {
  if (const cudaError_t refused = captures::unsafe_call()) return refused;
  const auto memory = AddressSpace::instance().remove(address, {kind});
  if (memory == nullptr) {
    report(std::string(function) + " of memory that is not, or no longer, pinned");
    return cudaErrorInvalidValue;
  }
  if (memory->in_use())
    report(std::string(function) + " of " + memory->name() + " that enqueued work still uses");
  wait_for_device(current_device());
  memory->end();
  return cudaSuccess;
}

}  // namespace
}  // namespace fakecuda

using namespace fakecuda;  // NOLINT(google-build-using-namespace): the runtime's functions lie outside

cudaError_t cudaHostAlloc(void** address, std::size_t bytes, unsigned flags) {
  return call("cudaHostAlloc", [&] { return allocate(address, bytes, flags); });
}

cudaError_t cudaMallocHost(void** address, std::size_t bytes) {
  return call("cudaMallocHost", [&] { return allocate(address, bytes, cudaHostAllocDefault); });
}

cudaError_t cudaFreeHost(void* address) {
  return release_call("cudaFreeHost", [&] {
    return address == nullptr ? cudaSuccess : release("cudaFreeHost", address, MemoryKind::Host);
  });
}

cudaError_t cudaHostRegister(void* address, std::size_t bytes, unsigned flags) {
  return call("cudaHostRegister", [&] {
    if (address == nullptr || bytes == 0 || (flags & ~kRegisterFlags) != 0U) return cudaErrorInvalidValue;
    if (const cudaError_t refused = captures::unsafe_call()) return refused;
    auto& space = AddressSpace::instance();
    if (space.find(address)) return cudaErrorHostMemoryAlreadyRegistered;
    space.add(Allocation::registered(address, bytes));
    return cudaSuccess;
  });
}

cudaError_t cudaHostUnregister(void* address) {
  return release_call("cudaHostUnregister", [&] {
    const auto location = AddressSpace::instance().find(address);
    if (!location || location->memory->kind() != MemoryKind::Registered)
      return cudaErrorHostMemoryNotRegistered;
    return release("cudaHostUnregister", address, MemoryKind::Registered);
  });
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned flags) {
  return call("cudaHostGetDevicePointer", [&] {
    if (device == nullptr || flags != 0U) return cudaErrorInvalidValue;
    const auto location = AddressSpace::instance().find(host);
    if (!location || location->memory->on_device()) return cudaErrorInvalidValue;
    *device = host;
    return cudaSuccess;
  });
}
