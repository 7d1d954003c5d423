#pragma once

#include <string_view>

#include "sluice/hint.hpp"
#include "sluice/pipeline.hpp"

namespace sluice::tools {

/// `reversed` or `random:SEED`: hints that know nothing, to see what a bad hint costs.
[[nodiscard]] bool is_arbitrary_hint(std::string_view name) noexcept;

/// `reversed` runs the last microbatch first and of a microbatch the last task; `random:SEED` has the tasks
/// of every stage in an order of its own.
/// @throws ConfigError naming `hint` unless the name is one of these
[[nodiscard]] Hint arbitrary_hint(std::string_view name, const Pipeline& pipeline, StageId stage);

}  // namespace sluice::tools
