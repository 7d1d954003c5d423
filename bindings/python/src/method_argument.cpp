#include "method_argument.hpp"

#include <vector>

#include "sluice/error.hpp"
#include "sluice/schedule_csv.hpp"

namespace sluice::python {
namespace {

/// The schedule with what a file of it would say of its pipeline.
ScheduleFile file_of(const PipelineSchedule& made) {
  std::vector<StageId> placement;
  for (std::uint32_t chunk = 0; chunk < made.pipeline.chunks(); ++chunk)
    placement.push_back(made.pipeline.stage_of(static_cast<Chunk>(chunk)));
  return {made.schedule, std::move(placement), made.pipeline.microbatches(), {}};
}

/// Null for another kind of method.
const PipelineSchedule* schedule_of(const MethodArgument& method) {
  const auto* const schedule = std::get_if<std::shared_ptr<PipelineSchedule>>(&method);
  if (schedule == nullptr) return nullptr;
  // Python's None becomes a null pointer.
  if (*schedule == nullptr) throw ConfigError("method", "is None");
  return schedule->get();
}

}  // namespace

tools::Method make_method(const MethodArgument& method, const Pipeline& pipeline,
                          const tools::MethodSettings& settings) {
  if (const auto* name = std::get_if<std::string>(&method)) return {*name, pipeline, settings};
  if (const PipelineSchedule* schedule = schedule_of(method))
    return tools::Method::in_order(file_of(*schedule), pipeline, settings);
  const auto& hint = std::get<NamedHint>(method);
  if (hint.schedule) return tools::Method::ranked_by(file_of(*hint.schedule), pipeline, settings);
  return {hint.name, pipeline, settings};
}

std::string name_of(const MethodArgument& method) {
  if (const auto* name = std::get_if<std::string>(&method)) return *name;
  if (const PipelineSchedule* schedule = schedule_of(method)) return schedule->schedule.name();
  return std::get<NamedHint>(method).name;
}

}  // namespace sluice::python
