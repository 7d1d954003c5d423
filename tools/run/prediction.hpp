#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "option/options.hpp"
#include "run/method_run.hpp"

namespace sluice::tools {

/// What the simulator says of a run on emulated devices, on the same draws. The errors are those of the
/// time of all measured iterations together, relative to what was measured.
struct RunPrediction {
  double total_s = 0;
  double error = 0;
  /// With the overhead that was measured in the run.
  double total_with_overhead_s = 0;
  double error_with_overhead = 0;
};

/// One a run.
/// @param iterations measured, from 1
/// Precondition: every run knows its overhead.
[[nodiscard]] std::vector<RunPrediction> predict_runs(const PipelineOptions& options,
                                                      std::span<const std::unique_ptr<MethodRun>> runs,
                                                      std::uint64_t iterations);

}  // namespace sluice::tools
