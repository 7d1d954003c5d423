#include "ended_graphs.hpp"

#include <cuda_runtime_api.h>

/// In front of the library's.
extern "C" cudaError_t cudaGraphLaunch(cudaGraphExec_t /*graph*/, cudaStream_t /*stream*/) {
  return cudaSuccess;
}

namespace sluice::test {
namespace {

cuda::SlotMemory memory_of(const Pipeline& pipeline, StageId stage, std::uint32_t slots,
                           const cuda::Stage& code) {
  TensorShape shape;
  shape.dtype_code = 2;
  shape.dtype_bits = 32;
  shape.rank = 2;
  shape.extent[0] = 8;
  shape.extent[1] = 16;
  const std::vector<cuda::EdgeLayout> layouts(pipeline.edges().size(), {shape});
  const std::vector<cuda::ChunkMemory> chunks{code.memory()};
  return {pipeline, stage, slots, layouts, chunks};
}

/// Nothing to verify: no graph is launched.
graphs::GraphCache::Options unverified() {
  graphs::GraphCache::Options options;
  options.verify = false;
  return options;
}

}  // namespace

EndedGraphs::EndedGraphs(const Pipeline& pipeline, StageId stage, std::uint32_t slots)
    : memory_(memory_of(pipeline, stage, slots, stage_)),
      cache_(pipeline, stage, {&stage_}, memory_, unverified()) {}

}  // namespace sluice::test
