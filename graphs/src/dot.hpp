#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace sluice::graphs {

/// The graph in Graphviz's language, through a temporary file.
/// @throws CudaError; Error if no temporary file can be written or read
[[nodiscard]] std::string dot_of(cudaGraph_t graph);

}  // namespace sluice::graphs
