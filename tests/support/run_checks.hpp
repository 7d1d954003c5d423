#pragma once

#include <string>

#include "scenario.hpp"

namespace sluice::test {

/// Checks a finished run against what must hold of any run, knowing nothing of how it was decided:
/// every task once and after its inputs, whole or split but never both, one task at a time on a lane,
/// accumulation in microbatch order, D and the slots within their bounds, focus in its local order and a
/// weight gradient wherever one has to make room.
/// @return the first fault, or an empty text
[[nodiscard]] std::string fault_in(const Scenario& scenario, const Record& record);

/// The launch order, task by task.
[[nodiscard]] std::vector<std::vector<Task>> sequences(const Record& record);

}  // namespace sluice::test
