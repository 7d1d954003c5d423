#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sluice/process/bootstrap.hpp"
#include "sluice/process/control_plane.hpp"

namespace sluice::process {

/// What must be the same on all ranks: fields and their values, as people write them. Each field once.
using Configuration = std::vector<std::pair<std::string, std::string>>;

/// Ranks exchange a hash of their configurations and, only if it differs, the configurations. All ranks
/// make the call.
/// @throws ConfigError on every rank, naming each field that differs, and who has what:
///         `microbatches: rank 2 has 8, rank 0 has 16`; Error naming a rank that sent no configuration
void check_same_configuration(Bootstrap& bootstrap, const Configuration& own);

/// @throws ConfigError and Error as above, and Aborted if the run has failed
void check_same_configuration(ControlPlane& control, const Configuration& own);

/// The comparison alone.
/// @param all the configuration of each rank
/// @throws ConfigError as above
void require_same(std::span<const Configuration> all);

}  // namespace sluice::process
