#pragma once

#include <vector>

#include "capture/capture_options.hpp"
#include "sluice/graphs/capture_target.hpp"

namespace sluice::tools {

/// @throws ConfigError naming `module`, with what to do, if this build has no LibTorch or one without CUDA
void expect_script_support();

/// A TorchScript module as the one chunk to be captured.
/// @throws ConfigError as capture::load_script
[[nodiscard]] std::vector<graphs::CaptureTarget> script_targets(const CaptureOptions& options);

}  // namespace sluice::tools
