#include "graph_memory.hpp"

#include <cuda_runtime_api.h>

#include "sluice/cuda/cuda_error.hpp"

namespace sluice::graphs {
namespace {

std::uint64_t read(int device, cudaGraphMemAttributeType attribute) {
  std::uint64_t value = 0;
  cuda::check(cudaDeviceGetGraphMemAttribute(device, attribute, &value), "asking for the memory of graphs");
  return value;
}

std::size_t above(std::uint64_t before, std::uint64_t value) { return value > before ? value - before : 0; }

}  // namespace

GraphMemoryMeter::GraphMemoryMeter(bool wanted) : wanted_(wanted) {
  if (!wanted) return;
  std::uint64_t none = 0;
  cuda::check(cudaGetDevice(&device_), "asking for the device");
  cuda::check(cudaDeviceSetGraphMemAttribute(device_, cudaGraphMemAttrUsedMemHigh, &none),
              "starting to measure the memory of graphs");
  used_ = read(device_, cudaGraphMemAttrUsedMemCurrent);
  reserved_ = read(device_, cudaGraphMemAttrReservedMemCurrent);
}

std::size_t GraphMemoryMeter::highest() const {
  return wanted_ ? above(used_, read(device_, cudaGraphMemAttrUsedMemHigh)) : 0;
}

std::size_t GraphMemoryMeter::reserved() const {
  return wanted_ ? above(reserved_, read(device_, cudaGraphMemAttrReservedMemCurrent)) : 0;
}

}  // namespace sluice::graphs
