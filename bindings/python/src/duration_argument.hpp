#pragma once

#include <string>
#include <variant>
#include <vector>

#include "sluice/host/duration_model.hpp"
#include "sluice/pipeline.hpp"

namespace sluice::python {

/// `f=10ms,b=20ms`, or Python's `Durations`: of a stage, or one a chunk.
using DurationsArgument = std::variant<std::string, host::DurationModel, std::vector<host::DurationModel>>;

/// One a chunk. What is of a stage is divided among its chunks.
/// @throws ConfigError naming `durations`
[[nodiscard]] std::vector<host::DurationModel> chunk_durations(const DurationsArgument& durations,
                                                               const Pipeline& pipeline);

}  // namespace sluice::python
