#pragma once

#include <memory>
#include <string>
#include <variant>

#include "method/method.hpp"
#include "run/scheduled_run.hpp"
#include "sluice/pipeline.hpp"

namespace sluice::python {

/// A schedule and the pipeline it is for: Python's `Schedule`.
using PipelineSchedule = tools::LoadedSchedule;

/// Python's `Hint`: a name, or the order of a schedule.
struct NamedHint {
  std::string name;
  /// None for a name.
  std::shared_ptr<PipelineSchedule> schedule{};
};

/// A way of ordering the work, as Python names it.
using MethodArgument = std::variant<std::string, std::shared_ptr<PipelineSchedule>, NamedHint>;

/// @throws ConfigError naming the field
[[nodiscard]] tools::Method make_method(const MethodArgument& method, const Pipeline& pipeline,
                                        const tools::MethodSettings& settings);

/// What the method calls itself.
[[nodiscard]] std::string name_of(const MethodArgument& method);

}  // namespace sluice::python
