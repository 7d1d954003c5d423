#pragma once

#include <string_view>

#include "sluice/pipeline.hpp"
#include "sluice/schedule.hpp"

namespace sluice {

/// @param schedule for the message
/// @throws ConfigError naming `schedule` and the first chunk unless the pipeline is a chain placed so
void require_placement(const Pipeline& pipeline, Placement placement, std::string_view schedule);

}  // namespace sluice
