#pragma once

#include <cstdint>
#include <vector>

#include "option/options.hpp"

namespace sluice::tools {

/// Patches of an image of each microbatch in a training step, replica by replica.
/// @param options of a model that describes images
/// @param step from 0
[[nodiscard]] std::vector<std::uint32_t> image_patches(const RunOptions& options, std::uint64_t step);

}  // namespace sluice::tools
