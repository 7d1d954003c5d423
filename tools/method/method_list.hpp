#pragma once

#include <functional>
#include <string>
#include <vector>

#include "method/method.hpp"

namespace sluice::tools {

/// The methods of a comparison.
/// @param equal_memory the first method, a schedule, sets the limits of all, stage by stage
/// @param pipeline_of the pipeline that the method of a name runs, its backwards not split
/// @throws ConfigError naming `methods` for none or one that is named twice, `equal-memory` if the settings
///         give limits too, or what Method refuses
[[nodiscard]] std::vector<Method> make_methods(
    const std::vector<std::string>& names, bool equal_memory, MethodSettings settings,
    const std::function<Pipeline(const std::string& name)>& pipeline_of);

}  // namespace sluice::tools
