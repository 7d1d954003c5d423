#pragma once

#include <nccl.h>

#include <cstddef>

namespace fakenccl {

/// 0 for a type that the fake does not know.
[[nodiscard]] std::size_t bytes_of(ncclDataType_t type);
/// Whether the fake can carry it out.
[[nodiscard]] bool reduces(ncclDataType_t type, ncclRedOp_t operation);
/// into[i] = into[i] op from[i]. Precondition: `reduces`.
void reduce(void* into, const void* from, std::size_t count, ncclDataType_t type, ncclRedOp_t operation);

}  // namespace fakenccl
