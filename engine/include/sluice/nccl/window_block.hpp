#pragma once

#include "sluice/cuda/ipc_transport.hpp"
#include "sluice/cuda/memory.hpp"

namespace sluice::nccl {

/// For the block of a stage's slots (`SlotMemoryPlan::block_source`): memory that NCCL can make a window of,
/// which has the same size on all ranks, that of the rank that asks for most. Limits in bytes keep it from
/// being much more than the others need.
///
/// When asked, it throws ConfigError naming `nccl`; CudaError if memory runs out; NcclError.
/// @param all_gather all ranks that share it ask at the same time
[[nodiscard]] cuda::MemorySource window_block(cuda::AllGather all_gather);

}  // namespace sluice::nccl
