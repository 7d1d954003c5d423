#pragma once

#include <cstddef>
#include <functional>

namespace sluice::tools {

/// Calls `job(0)` to `job(jobs - 1)`, each once, from as many threads as the machine has cores.
/// @param threads 0 for one a core
/// @param finished called after each job with the number of those done, one call at a time
/// @throws the first error of a job, after all threads have stopped
void run_parallel(std::size_t jobs, unsigned threads, const std::function<void(std::size_t)>& job,
                  const std::function<void(std::size_t done)>& finished = {});

}  // namespace sluice::tools
