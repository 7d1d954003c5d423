#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>

#include "option/options.hpp"
#include "run/process_session.hpp"

namespace sluice::tools {

/// Runs the command where its options want it: here, in processes that are started for it, or as one of
/// these.
/// @param configuration everything that must be the same in all processes
/// @param work gets the session where the ranks are processes, else null
/// @throws what the work throws; Error naming the processes that failed
void run_in_processes(const RunOptions& options, const std::function<nlohmann::json()>& configuration,
                      const std::function<void(ProcessSession*)>& work);

/// Whether this process prints and writes the results.
[[nodiscard]] bool leads(ProcessSession* session);

}  // namespace sluice::tools
