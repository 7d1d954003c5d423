#pragma once

#include <nccl.h>

#include "communicator.hpp"

namespace fakenccl {

/// What a round of notes is for: the first word of each note.
enum class Round : int { Window, Split, SplitId };

/// Whether all ranks make the same call. Precondition: the round is complete.
[[nodiscard]] ncclResult_t check_round(Communicator& communicator, Round round);

}  // namespace fakenccl
