#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "address_space.hpp"
#include "call.hpp"
#include "capture.hpp"
#include "controls.hpp"
#include "device.hpp"
#include "graph_exec.hpp"
#include "live_count.hpp"
#include "settings.hpp"

namespace fakecuda {
namespace {

constexpr int kMultiprocessors = 4;
constexpr int kComputeMajor = 9;
constexpr int kMostThreads = 1024;

thread_local int device_of_thread = 0;
std::atomic<bool> profiling{false};

/// What every use of a device needs.
cudaError_t installed() {
  if (driver_version() == 0 || driver_version() < CUDART_VERSION / 1000 * 1000)
    return cudaErrorInsufficientDriver;
  return device_count() > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t known(int device) {
  if (const cudaError_t error = installed()) return error;
  return device >= 0 && device < device_count() ? cudaSuccess : cudaErrorInvalidDevice;
}

int attribute_value(cudaDeviceAttr attribute) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      return kComputeMajor;
    case cudaDevAttrComputeCapabilityMinor:
      return 0;
    case cudaDevAttrMultiProcessorCount:
      return kMultiprocessors;
    case cudaDevAttrMaxThreadsPerBlock:
      return kMostThreads;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return 48 << 10;
    case cudaDevAttrWarpSize:
      return 32;
    case cudaDevAttrClockRate:
      return 1000000;
    case cudaDevAttrAsyncEngineCount:
      return 2;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrMemoryPoolsSupported:
      return 1;
    case cudaDevAttrIpcEventSupport:
      return peers_allowed() ? 1 : 0;
    default:
      return 0;
  }
}

void fill_properties(cudaDeviceProp& properties, int device) {
  std::memset(&properties, 0, sizeof properties);
  std::snprintf(properties.name, sizeof properties.name, "Fake CUDA device %d (host threads)", device);
  properties.major = kComputeMajor;
  properties.multiProcessorCount = kMultiprocessors;
  properties.totalGlobalMem = device_memory();
  properties.maxThreadsPerBlock = kMostThreads;
  properties.sharedMemPerBlock = 48U << 10U;
  properties.warpSize = 32;
  properties.asyncEngineCount = 2;
  properties.concurrentKernels = 1;
  properties.canMapHostMemory = 1;
  properties.unifiedAddressing = 1;
  properties.streamPrioritiesSupported = 1;
  properties.memoryPoolsSupported = 1;
  properties.pciBusID = device;
}

}  // namespace

int current_device() { return device_of_thread; }
void set_current_device(int device) { device_of_thread = device; }

}  // namespace fakecuda

using namespace fakecuda;  // NOLINT(google-build-using-namespace): the runtime's functions lie outside

cudaError_t cudaRuntimeGetVersion(int* version) {
  return call("cudaRuntimeGetVersion", [&] {
    *version = CUDART_VERSION;
    return cudaSuccess;
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  return call("cudaDriverGetVersion", [&] {
    *version = driver_version();
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceCount(int* count) {
  return call("cudaGetDeviceCount", [&] {
    *count = 0;
    if (const cudaError_t error = installed()) return error;
    *count = device_count();
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return call("cudaGetDevice", [&] {
    if (const cudaError_t error = installed()) return error;
    *device = current_device();
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return call("cudaSetDevice", [&] {
    if (const cudaError_t error = known(device)) return error;
    set_current_device(device);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return call("cudaDeviceGetAttribute", [&] {
    if (const cudaError_t error = known(device)) return error;
    *value = attribute_value(attribute);
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call("cudaGetDeviceProperties", [&] {
    if (const cudaError_t error = known(device)) return error;
    fill_properties(*properties, device);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return call("cudaDeviceCanAccessPeer", [&] {
    if (const cudaError_t error = known(device)) return error;
    if (const cudaError_t error = known(peer)) return error;
    *can = device != peer && peers_allowed() ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return call("cudaDeviceEnablePeerAccess", [&] {
    if (flags != 0U) return cudaErrorInvalidValue;
    if (const cudaError_t error = known(peer)) return error;
    if (peer == current_device()) return cudaErrorInvalidDevice;
    return peers_allowed() ? cudaSuccess : cudaErrorPeerAccessUnsupported;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call("cudaDeviceSynchronize", [&] {
    if (const cudaError_t refused = captures::ask_about_device(current_device())) return refused;
    if (const cudaError_t refused = captures::unsafe_call()) return refused;
    wait_for_device(current_device());
    return device_error();
  });
}

cudaError_t cudaProfilerStart() {
  return call("cudaProfilerStart", [] {
    profiling.store(true);
    return cudaSuccess;
  });
}

cudaError_t cudaProfilerStop() {
  return call("cudaProfilerStop", [] {
    profiling.store(false);
    return cudaSuccess;
  });
}

bool fakecuda_profiling() { return profiling.load(); }

std::size_t fakecuda_live(const char* kind) {
  const Hidden hidden;
  const std::string_view word(kind);
  const auto& space = AddressSpace::instance();
  if (word == "allocations") {
    return space.count({MemoryKind::Device, MemoryKind::Graph, MemoryKind::Nccl});
  }
  if (word == "host allocations") return space.count({MemoryKind::Host, MemoryKind::Registered});
  if (word == "opened handles") return space.count({MemoryKind::Peer});
  if (word == "streams") return streams().size();
  if (word == "events") return events().size();
  if (word == "graphs") return graphs().size();
  if (word == "executable graphs") return graph_execs().size();
  return counted_live(word);
}
