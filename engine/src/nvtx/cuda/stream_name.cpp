#include "sluice/nvtx/stream_name.hpp"

#include <nvtx3/nvToolsExtCudaRt.h>

namespace sluice::nvtx {

void name_stream(CUstream_st* stream, const std::string& name) { nvtxNameCudaStreamA(stream, name.c_str()); }

}  // namespace sluice::nvtx
