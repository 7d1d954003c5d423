#pragma once

#include <span>
#include <string>

#include "sluice/graphs/capture_target.hpp"
#include "sluice/graphs/manifest.hpp"

namespace sluice::tools {

/// What was captured, a line a (chunk, pass), and the memory it takes.
[[nodiscard]] std::string capture_table(const graphs::Manifest& manifest,
                                        std::span<const graphs::CaptureTarget> targets);

}  // namespace sluice::tools
