#pragma once

#include <nccl.h>

#include <memory>

#include "communicator.hpp"

namespace fakenccl {

/// Takes the rank's place in the meeting and begins to wait for the others.
/// @param handle out: the communicator, also while it waits
ncclResult_t join(const std::shared_ptr<Meeting>& meeting, const Communicator::Place& place,
                  ncclComm_t* handle);
/// The same without waiting for anything, in the background of another communicator's call.
ncclResult_t begin_join(const std::shared_ptr<Meeting>& meeting, const Communicator::Place& place,
                        ncclComm_t* handle);

/// What a configuration says about blocking; `otherwise` where it says nothing.
/// @param config may be null
ncclResult_t read_config(const ncclConfig_t* config, bool otherwise, bool& blocking);

}  // namespace fakenccl
