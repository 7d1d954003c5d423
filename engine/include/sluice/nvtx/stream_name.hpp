#pragma once

#include <string>

struct CUstream_st;

namespace sluice::nvtx {

/// Names a CUDA stream in whatever tool is attached. Only where Sluice was built with CUDA; the call needs
/// neither a device nor the runtime library.
/// @param stream a `cudaStream_t`, such as that of a lane of a cuda::CudaExecutor
void name_stream(CUstream_st* stream, const std::string& name);

}  // namespace sluice::nvtx
