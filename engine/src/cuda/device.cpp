#include "sluice/cuda/device.hpp"

#include <cuda.h>
#include <cudaTypedefs.h>
#include <fmt/format.h>

#include "sluice/cuda/cuda_error.hpp"
#include "sluice/error.hpp"

namespace sluice::cuda {
namespace {

constexpr int kLeastComputeMajor = 8;
/// The CUDA version in which the functions got the form that is used here.
constexpr unsigned kStreamWriteVersion = 11070;

/// `12.5` of 12050.
std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

int driver_version() {
  int version = 0;
  check(cudaDriverGetVersion(&version), "asking for the driver's version");
  return version;
}

int runtime_version() {
  int version = 0;
  check(cudaRuntimeGetVersion(&version), "asking for the runtime's version");
  return version;
}

/// Why the runtime cannot be used at all, and what to do.
ConfigError unusable(cudaError_t code) {
  static_cast<void>(cudaGetLastError());
  const int driver = driver_version();
  if (driver == 0) {
    return {"device", "there is no NVIDIA driver: install one, or give the container access to the devices"};
  }
  if (code == cudaErrorInsufficientDriver) {
    const int runtime = runtime_version();
    return {
        "device",
        fmt::format("the driver knows CUDA up to {}, but this program uses {}: update the driver, or build "
                    "with a CUDA toolkit of at most {}",
                    version_text(driver), version_text(runtime), version_text(driver))};
  }
  if (code == cudaErrorNoDevice) {
    return {
        "device",
        "the driver shows no device: see whether nvidia-smi lists one and what CUDA_VISIBLE_DEVICES says"};
  }
  return {"device", CudaError(code, "asking for the devices").what()};
}

int attribute(cudaDeviceAttr attribute, int ordinal) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, attribute, ordinal), fmt::format("asking what device {} is", ordinal));
  return value;
}

std::string name_of(int ordinal) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, ordinal), fmt::format("asking what device {} is", ordinal));
  return properties.name;
}

}  // namespace

DeviceInfo use_device(int ordinal) {
  int devices = 0;
  if (const cudaError_t code = cudaGetDeviceCount(&devices); code != cudaSuccess) throw unusable(code);
  if (ordinal < 0 || ordinal >= devices) {
    throw ConfigError(
        "device",
        fmt::format("{} is not one of the {} devices that CUDA_VISIBLE_DEVICES lets this process see, "
                    "counted from 0",
                    ordinal, devices));
  }
  DeviceInfo info;
  info.ordinal = ordinal;
  info.name = name_of(ordinal);
  info.driver_version = driver_version();
  info.runtime_version = runtime_version();
  info.compute_major = attribute(cudaDevAttrComputeCapabilityMajor, ordinal);
  info.compute_minor = attribute(cudaDevAttrComputeCapabilityMinor, ordinal);
  if (info.compute_major < kLeastComputeMajor) {
    throw ConfigError(
        "device", fmt::format("{} ({}) has compute capability {}.{}; {}.0 is the least", ordinal, info.name,
                              info.compute_major, info.compute_minor, kLeastComputeMajor));
  }
  check(cudaSetDevice(ordinal), fmt::format("choosing device {}", ordinal));
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), fmt::format("asking for the memory of device {}", ordinal));
  info.memory_bytes = total;
  info.free_bytes = free;
  return info;
}

void* driver_function(const char* name, unsigned version) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSuccess;
  const cudaError_t code =
      cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &result);
  if (code == cudaSuccess && result == cudaDriverEntryPointSuccess && function != nullptr) return function;
  static_cast<void>(cudaGetLastError());
  throw Error(fmt::format("the driver (CUDA {}) has no {} of CUDA {}: update the driver",
                          version_text(driver_version()), name, version_text(static_cast<int>(version))));
}

void write_value(cudaStream_t stream, std::uint32_t* address, std::uint32_t value) {
  static const auto write = reinterpret_cast<PFN_cuStreamWriteValue32_v11070>(
      driver_function("cuStreamWriteValue32", kStreamWriteVersion));
  const CUresult result =
      write(stream, reinterpret_cast<CUdeviceptr>(address), value, CU_STREAM_WRITE_VALUE_DEFAULT);
  // The driver's codes are the runtime's.
  check(static_cast<cudaError_t>(result), "putting the writing of a word on a stream");
}

}  // namespace sluice::cuda
