#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

namespace sluice::cuda {

/// What a run needs of a device.
struct DeviceInfo {
  int ordinal = 0;
  std::string name;
  int driver_version = 0;  ///< as cudaDriverGetVersion says: 12050 is 12.5
  int runtime_version = 0;
  int compute_major = 0;
  int compute_minor = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t free_bytes = 0;
};

/// Makes the device the calling thread's.
/// @throws ConfigError naming `device`, with what to do: no driver, one older than the runtime, no such
///         device, one below compute capability 8.0
DeviceInfo use_device(int ordinal);

/// The driver's own function of that name, for what the runtime has no call for.
/// @throws Error naming the function and the driver's version if the driver has none
[[nodiscard]] void* driver_function(const char* name, unsigned version);

/// `cuStreamWriteValue32`: the stream writes a word of host or device memory when it gets there.
/// @param address as the device sees it
/// @throws CudaError
void write_value(cudaStream_t stream, std::uint32_t* address, std::uint32_t value);

}  // namespace sluice::cuda
