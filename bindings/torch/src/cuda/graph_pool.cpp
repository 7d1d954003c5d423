#include "graph_pool.hpp"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/util/Exception.h>

#include "sluice/cuda/cuda_error.hpp"

namespace at::cuda {
/// As in ATen/cuda/CUDAContextLight.h, which needs the headers of cuBLAS.
void clearCublasWorkspaces();
}  // namespace at::cuda

namespace sluice::capture {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

/// Where torch counts the captures that go on, which it does since 2.13.
template <typename Allocator>
void mark_begin(Allocator& torch, c10::DeviceIndex device) {
  if constexpr (requires { torch.markCaptureBegin(device); }) torch.markCaptureBegin(device);
}

template <typename Allocator>
void mark_end(Allocator& torch, c10::DeviceIndex device) {
  if constexpr (requires { torch.markCaptureEnd(device); }) torch.markCaptureEnd(device);
}

}  // namespace

std::optional<std::uint64_t> capture_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long number = 0;
  const cudaError_t code = cudaStreamGetCaptureInfo(stream, &status, &number);
  if (code != cudaSuccess) static_cast<void>(cudaGetLastError());
  cuda::check(code, "asking whether a stream captures");
  if (status != cudaStreamCaptureStatusActive) return std::nullopt;
  return number;
}

GraphPool::GraphPool(c10::DeviceIndex device) : device_(device), id_(at::cuda::graph_pool_handle()) {}

GraphPool::~GraphPool() {
  for (; uses_ > 0; --uses_) {
    try {
      allocator::releasePool(device_, id_);
    } catch (const c10::Error&) {
      // Torch does not know the pool any more, so that nothing is held.
      return;
    }
  }
}

GraphPool::Routing::Routing(GraphPool& pool, std::uint64_t capture) : pool_(pool) {
  // Graphs of different lanes run at the same time: each slot's have a workspace of their own.
  at::cuda::clearCublasWorkspaces();
  const auto takes_part = [capture](cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long number = 0;
    if (cudaStreamGetCaptureInfo(stream, &status, &number) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      return false;
    }
    return status == cudaStreamCaptureStatusActive && number == capture;
  };
  allocator::beginAllocateToPool(pool_.device_, pool_.id_, takes_part);
  ++pool_.uses_;
  mark_begin(*allocator::get(), pool_.device_);
}

GraphPool::Routing::~Routing() {
  try {
    at::cuda::clearCublasWorkspaces();
    mark_end(*allocator::get(), pool_.device_);
    allocator::endAllocateToPool(pool_.device_, pool_.id_);
  } catch (const c10::Error&) {
    // It was begun above; an allocator that forgot it routes nothing any more.
    return;
  }
}

std::uint64_t GraphPool::bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& segment : allocator::snapshot().segments) {
    if (segment.owner_private_pool_id == id_) bytes += segment.total_size;
  }
  return bytes;
}

}  // namespace sluice::capture
