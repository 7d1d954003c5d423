#pragma once

#include <string>
#include <vector>

#include "sluice/graphs/capture_target.hpp"
#include "sluice/graphs/plugin.hpp"

namespace sluice::graphs {

/// Loads a plug-in and asks it for the chunks to be captured. The library stays loaded until the process
/// ends: its kernels are known to the CUDA runtime, and its code may be needed to the last.
/// @param path of the file; never looked up elsewhere
/// @throws ConfigError naming `plugin`, with the path and what to do: no such file, not loadable, without the
///         function, built with another Sluice, CUDA or standard library, failed, or without targets
[[nodiscard]] std::vector<CaptureTarget> load_plugin(const std::string& path,
                                                     const PluginArguments& arguments);

}  // namespace sluice::graphs
