#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "recorded_trace.hpp"
#include "run/simulation.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/sim/world.hpp"
#include "sluice/trace/timeline.hpp"

namespace sluice::python {

/// One method that was simulated: Python's `SimulatedRun`.
struct SimulatedRun {
  /// Over all draws.
  tools::SimulatedMethod figures;
  /// As the method ran it.
  Pipeline pipeline;
  /// One a stage.
  std::vector<std::uint32_t> limits;
  /// Of the last draw, one a stage.
  std::vector<sim::StageReport> stages;
  /// Of the last draw.
  trace::MethodTimeline timeline;
  std::optional<RecordedTrace> recorded;
};

}  // namespace sluice::python
