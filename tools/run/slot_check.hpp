#pragma once

#include "sluice/trace/recorded_run.hpp"

namespace sluice::tools {

/// Makes sure that the run's decisions fit its memory. A pair of chunk and microbatch is in flight from its
/// forward to its last pass. Under a hint no more of them are in flight than the limit has credits; a
/// schedule may hold its peak, so there only the slots count. A slot is that of one pair at a time, from the
/// pair's forward to its last pass.
/// @throws ConfigError naming `replay`, stage and decision
void check_slots(const trace::RecordedRun& run);

}  // namespace sluice::tools
