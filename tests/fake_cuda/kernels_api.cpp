#include <cuda_runtime_api.h>
#include <cxxabi.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "call.hpp"
#include "kernels.hpp"

namespace fakecuda {
namespace {

struct Configuration {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes;
  cudaStream_t stream;
};

thread_local std::vector<Configuration> configurations;

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                    std::free);
  return text != nullptr ? text.get() : name;
}

cudaError_t launch_stub(const void* stub, dim3 grid, dim3 block, void** arguments, std::size_t shared_bytes,
                        cudaStream_t stream) {
  // `stub` may also be what __cudaGetKernel gave.
  const DeviceFunction* function = kernels::find_function(stub);
  if (function == nullptr) return cudaErrorInvalidDeviceFunction;
  return launch(*function, grid, block, arguments, shared_bytes, stream);
}

}  // namespace
}  // namespace fakecuda

using namespace fakecuda;  // NOLINT(google-build-using-namespace): the runtime's functions lie outside

// What the code calls that nvcc generates.
extern "C" {

void** __cudaRegisterFatBinary(void* image) {
  static auto& images = *new std::deque<void*>;
  const Hidden hidden;
  images.push_back(image);
  return &images.back();
}

void __cudaRegisterFatBinaryEnd(void** /*image*/) {}

void __cudaUnregisterFatBinary(void** /*image*/) {}

char __cudaInitModule(void** /*image*/) { return 1; }

void __cudaRegisterVar(void** /*image*/, char* /*variable*/, char* /*address*/, const char* /*name*/,
                       int /*external*/, std::size_t /*size*/, int /*constant*/, int /*global*/) {}

void __cudaRegisterFunction(void** /*image*/, const char* stub, char* /*function*/, const char* name,
                            int /*thread_limit*/, uint3* /*thread*/, uint3* /*block*/, dim3* /*block_dim*/,
                            dim3* /*grid_dim*/, int* /*warp_size*/) {
  const Hidden hidden;
  kernels::add_function({stub, name, demangled(name)});
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes, CUstream_st* stream) {
  const Hidden hidden;
  configurations.push_back({grid, block, shared_bytes, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes, void* stream) {
  const Hidden hidden;
  if (configurations.empty()) return cudaErrorMissingConfiguration;
  const Configuration last = configurations.back();
  configurations.pop_back();
  *grid = last.grid;
  *block = last.block;
  *shared_bytes = last.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  const Hidden hidden;
  if (kernels::find_function(stub) == nullptr) return cudaErrorInvalidDeviceFunction;
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(stub));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               std::size_t shared_bytes, cudaStream_t stream) {
  return call("__cudaLaunchKernel", [&] {
    return launch_stub(static_cast<const void*>(kernel), grid, block, arguments, shared_bytes, stream);
  });
}
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             std::size_t shared_bytes, cudaStream_t stream) {
  return call("cudaLaunchKernel",
              [&] { return launch_stub(function, grid, block, arguments, shared_bytes, stream); });
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  return call("cudaLaunchKernelExC", [&] {
    return launch_stub(function, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes,
                       config->stream);
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  return call("cudaFuncGetAttributes", [&] {
    if (kernels::find_function(function) == nullptr) return cudaErrorInvalidDeviceFunction;
    std::memset(attributes, 0, sizeof *attributes);
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 32;
    attributes->ptxVersion = attributes->binaryVersion = 90;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute /*attribute*/, int /*value*/) {
  return call("cudaFuncSetAttribute", [&] {
    return kernels::find_function(function) != nullptr ? cudaSuccess : cudaErrorInvalidDeviceFunction;
  });
}

cudaError_t cudaFuncGetName(const char** name, const void* function) {
  return call("cudaFuncGetName", [&] {
    const DeviceFunction* found = kernels::find_function(function);
    if (found == nullptr) return cudaErrorInvalidDeviceFunction;
    *name = found->mangled.c_str();
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* /*function*/,
                                                                   int block_size,
                                                                   std::size_t /*shared_bytes*/,
                                                                   unsigned /*flags*/) {
  return call("cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", [&] {
    if (block_size <= 0) return cudaErrorInvalidValue;
    *blocks = 2048 / block_size;
    return cudaSuccess;
  });
}
