#include <nccl.h>

#include <algorithm>

#include "call.hpp"
#include "capture.hpp"
#include "device.hpp"
#include "nccl_call.hpp"
#include "report.hpp"
#include "settings.hpp"
#include "window.hpp"

namespace fakenccl {
namespace {

using fakecuda::AddressSpace;
using fakecuda::Allocation;
using fakecuda::MemoryKind;

ncclResult_t allocate(void** address, std::size_t bytes) {
  if (address == nullptr || bytes == 0) return fail(ncclInvalidArgument, "ncclMemAlloc of nothing");
  *address = nullptr;
  if (fakecuda::driver_version() == 0) return fail(ncclUnhandledCudaError, "ncclMemAlloc: no driver");
  if (fakecuda::device_error() != cudaSuccess) return fail(ncclUnhandledCudaError, "the device has failed");
  if (fakecuda::captures::unsafe_call() != cudaSuccess) {
    return fail(ncclUnhandledCudaError, "ncclMemAlloc while a stream is captured");
  }
  const int device = fakecuda::current_device();
  const std::uint64_t all = fakecuda::device_memory();
  const std::uint64_t used = std::min(all, AddressSpace::instance().device_bytes(device));
  auto memory = bytes <= all - used ? Allocation::device(bytes, device, MemoryKind::Nccl) : nullptr;
  if (memory == nullptr) return fail(ncclUnhandledCudaError, "ncclMemAlloc: out of memory");
  *address = memory->address();
  AddressSpace::instance().add(std::move(memory));
  return ncclSuccess;
}

ncclResult_t free_memory(void* address) {
  if (address == nullptr) return fail(ncclInvalidArgument, "ncclMemFree of nothing");
  const auto location = AddressSpace::instance().find(address);
  if (!location || location->offset != 0 || location->memory->kind() != MemoryKind::Nccl) {
    return misuse(ncclInvalidArgument, "ncclMemFree of an address that ncclMemAlloc did not give");
  }
  if (in_window(*location->memory)) {
    fakecuda::report("ncclMemFree of " + location->memory->name() + " that is a registered window");
  }
  fakecuda::wait_for_device(location->memory->device_index());
  if (const auto memory = AddressSpace::instance().remove(address, {MemoryKind::Nccl})) memory->end();
  return ncclSuccess;
}

}  // namespace
}  // namespace fakenccl

ncclResult_t ncclMemAlloc(void** address, std::size_t bytes) {
  return fakenccl::call("ncclMemAlloc", [&] { return fakenccl::allocate(address, bytes); });
}

ncclResult_t ncclMemFree(void* address) {
  return fakenccl::call("ncclMemFree", [&] { return fakenccl::free_memory(address); });
}
