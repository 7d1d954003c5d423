#pragma once

#include <functional>
#include <span>

#include "sluice/process/bootstrap.hpp"
#include "transport/measurements.hpp"

namespace sluice::microbench {

/// Sorts the samples.
[[nodiscard]] Latency summarize(std::span<double> us);

enum class Cores { OneEach, Any };

/// Runs two processes; with `OneEach` on core 0 and core 1.
/// @throws Error if one of them fails
void run_pair(Cores cores, const std::function<void(process::Bootstrap&)>& work);

}  // namespace sluice::microbench
