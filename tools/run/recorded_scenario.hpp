#pragma once

#include "sluice/sim/scenario.hpp"
#include "sluice/trace/recorded_run.hpp"

namespace sluice::tools {

/// Gives a scenario the task times of a recorded run in place of drawn ones: draw k takes those of recorded
/// training iteration (k - 1) mod their number. `times` become the means.
/// @param run of as many chunks and microbatches as the scenario's pipeline, complete
/// @param weight_grad_share as RecordedTimes takes it
/// @throws ConfigError naming `pipeline`, `iterations`, or what RecordedTimes refuses
void use_recorded_times(sim::Scenario& scenario, const trace::RecordedRun& run, double weight_grad_share);

}  // namespace sluice::tools
