#pragma once

#include <memory>

#include "communicator.hpp"

namespace fakenccl::group {

/// Begins a part of a call, or keeps it until the thread's group ends.
ncclResult_t submit(const std::shared_ptr<Communicator>& communicator, Step step, bool setup);
/// A call has this result: a group with a call that failed is not carried out.
void called(ncclResult_t result);
void begin();
ncclResult_t end();

}  // namespace fakenccl::group
