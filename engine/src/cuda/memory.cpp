#include "sluice/cuda/memory.hpp"

#include <fmt/format.h>

#include <cstring>

#include "sluice/cuda/capture_mode.hpp"
#include "sluice/cuda/cuda_error.hpp"

namespace sluice::cuda {
namespace {

std::string free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) return "free bytes unknown";
  return fmt::format("{} bytes free", free);
}

void free_device_memory(std::byte* memory) noexcept {
  const RelaxedCaptureMode relaxed;
  static_cast<void>(cudaFree(memory));
}

}  // namespace

DeviceMemory::DeviceMemory(std::size_t bytes, const char* what) : size_(bytes) {
  if (bytes == 0) return;
  const RelaxedCaptureMode relaxed;
  void* memory = nullptr;
  if (const cudaError_t code = cudaMalloc(&memory, bytes); code != cudaSuccess) {
    // The failure has been told; what comes next must not find it again.
    static_cast<void>(cudaGetLastError());
    throw CudaError(
        code, fmt::format("allocating {} bytes of device memory for {} ({})", bytes, what, free_bytes()));
  }
  data_ = {static_cast<std::byte*>(memory), free_device_memory};
}

MappedMemory::MappedMemory(std::size_t bytes, const char* what) : size_(bytes) {
  if (bytes == 0) return;
  const RelaxedCaptureMode relaxed;
  void* host = nullptr;
  if (const cudaError_t code = cudaHostAlloc(&host, bytes, cudaHostAllocMapped | cudaHostAllocPortable);
      code != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    throw CudaError(code, fmt::format("allocating {} bytes of pinned host memory for {}", bytes, what));
  }
  host_.reset(static_cast<std::byte*>(host));
  std::memset(host, 0, bytes);
  void* device = nullptr;
  check(cudaHostGetDevicePointer(&device, host, 0), fmt::format("mapping the memory for {}", what));
  device_ = static_cast<std::byte*>(device);
}

void MappedMemory::Free::operator()(std::byte* memory) const noexcept {
  const RelaxedCaptureMode relaxed;
  static_cast<void>(cudaFreeHost(memory));
}

}  // namespace sluice::cuda
