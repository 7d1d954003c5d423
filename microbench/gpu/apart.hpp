#pragma once

#include <chrono>
#include <functional>
#include <nlohmann/json_fwd.hpp>

namespace sluice::microbench {

/// Runs the work in a process of its own, so that it may fork before it uses CUDA, and what goes wrong in it
/// ends nothing else.
/// @param longest it and all that it started are killed after
/// @throws Error with what the work threw, how its process ended, or that it took too long
[[nodiscard]] nlohmann::json run_apart(const std::function<nlohmann::json()>& work,
                                       std::chrono::seconds longest);

}  // namespace sluice::microbench
