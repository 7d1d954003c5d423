#include "method.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "sluice/error.hpp"

namespace sluice::tools {
namespace {

constexpr std::string_view kAsHint = "hint:";

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

[[noreturn]] void refuse(const char* field, std::string_view name) {
  throw ConfigError(field, fmt::format("'{}' is not one of {}", name, fmt::join(Method::names(), ", ")));
}

bool has_weight_grads(const Schedule& schedule) {
  for (StageId stage = 0; stage < schedule.stages(); ++stage) {
    const auto order = schedule.order(stage);
    const auto split = [](const Task& task) { return task.pass == Pass::WeightGrad; };
    if (std::any_of(order.begin(), order.end(), split)) return true;
  }
  return false;
}

}  // namespace

/// What a method's name stands for.
struct Method::Plan {
  enum class Kind : std::uint8_t { Hint, ScheduleAsHint, Schedule };

  std::string name;
  Kind kind = Kind::Hint;
  /// Of the hint or the schedule.
  std::string source;

  static Plan of(std::string_view name) {
    if (name.starts_with(kAsHint)) return as_hint(name, name.substr(kAsHint.size()));
    if (contains(Hint::names(), name)) return {std::string(name), Kind::Hint, std::string(name)};
    if (contains(Schedule::names(), name)) return {std::string(name), Kind::Schedule, std::string(name)};
    refuse("methods", name);
  }

  static Plan as_hint(std::string_view name, std::string_view source) {
    if (contains(Hint::names(), source)) return {std::string(name), Kind::Hint, std::string(source)};
    if (contains(Schedule::names(), source))
      return {std::string(name), Kind::ScheduleAsHint, std::string(source)};
    refuse("hint", source);
  }

  static Plan fixed(std::string_view name) {
    if (contains(Schedule::names(), name)) return {std::string(name), Kind::Schedule, std::string(name)};
    throw ConfigError("schedule",
                      fmt::format("'{}' is not one of {}", name, fmt::join(Schedule::names(), ", ")));
  }

  [[nodiscard]] bool splits(const std::optional<Schedule>& schedule) const {
    if (kind == Kind::Hint) return source == "bfw";
    return kind == Kind::ScheduleAsHint && has_weight_grads(*schedule);
  }

  [[nodiscard]] Pipeline pipeline(const PipelineSettings& settings) const {
    if (kind != Kind::Hint && Schedule::placement(source) == Placement::V) {
      if (settings.chunks_per_stage != 2) {
        throw ConfigError("chunks-per-stage",
                          fmt::format("{} has 2 chunks a stage, not {}", source, settings.chunks_per_stage));
      }
      return Pipeline::v_shape(settings.stages, settings.microbatches);
    }
    return Pipeline::interleaved(settings.stages, settings.chunks_per_stage, settings.microbatches);
  }
};

Method::Method(std::string_view name, const Pipeline& pipeline, const MethodSettings& settings)
    : Method(Plan::of(name), pipeline, settings) {}

Method::Method(std::string_view name, const PipelineSettings& settings)
    : Method(Plan::of(name), Plan::of(name).pipeline(settings), method_settings(settings)) {}

Pipeline Method::pipeline_for(std::string_view name, const PipelineSettings& settings) {
  return Plan::of(name).pipeline(settings);
}

Method Method::hint(std::string_view name, const PipelineSettings& settings) {
  const Plan plan = Plan::as_hint(name, name);
  return {plan, plan.pipeline(settings), method_settings(settings)};
}

Method Method::schedule(std::string_view name, const PipelineSettings& settings) {
  const Plan plan = Plan::fixed(name);
  return {plan, plan.pipeline(settings), method_settings(settings)};
}

std::vector<std::string> Method::names() {
  std::vector<std::string> names(Hint::names().begin(), Hint::names().end());
  names.insert(names.end(), Schedule::names().begin(), Schedule::names().end());
  return names;
}

Method::Method(const Plan& plan, const Pipeline& pipeline, const MethodSettings& settings)
    : name_(plan.name), pipeline_(pipeline), settings_(settings) {
  std::optional<Schedule> schedule;
  if (plan.kind != Plan::Kind::Hint) schedule = Schedule::named(plan.source, pipeline_);
  if (plan.splits(schedule)) pipeline_ = pipeline_.with_split(true);
  if (plan.kind == Plan::Kind::Schedule) policies_ = Policy::fixed(*schedule, pipeline_, settings.rules);
  for (StageId stage = 0; stage < pipeline_.stages(); ++stage) {
    if (plan.kind == Plan::Kind::Hint)
      policies_.push_back(Policy::readiness(Hint::named(plan.source, pipeline_, stage)));
    if (plan.kind == Plan::Kind::ScheduleAsHint)
      policies_.push_back(Policy::readiness(Hint::from_schedule(*schedule, pipeline_, stage)));
    // Refuses a limit that the stage cannot have.
    [[maybe_unused]] const std::uint32_t slots =
        policies_[stage].slots(pipeline_, stage, settings.limits[stage], settings.rules);
  }
  if (plan.kind == Plan::Kind::Schedule && settings.limit_given) check_limits(*schedule);
}

DispatcherConfig Method::config(StageId stage) const {
  DispatcherConfig config;
  config.rank = config.stage = stage;
  config.limit = settings_.limits[stage];
  config.rules = settings_.rules;
  return config;
}

void Method::check_limits(const Schedule& schedule) const {
  for (StageId stage = 0; stage < pipeline_.stages(); ++stage) {
    const std::uint32_t limit = settings_.limits[stage];
    const std::uint32_t peak = schedule.peak_in_flight(pipeline_, stage);
    const std::uint32_t allowed = Backpressure(pipeline_, stage, limit, settings_.rules).credits();
    if (peak <= allowed) continue;
    throw ConfigError(
        "limit",
        fmt::format(
            "schedule {} holds {} microbatches in flight on stage {}, more than the {} that {} allows", name_,
            peak, stage, allowed, limit));
  }
}

MethodSettings method_settings(const PipelineSettings& settings) {
  return {std::vector<std::uint32_t>(settings.stages, settings.limit), settings.limit_given, settings.rules};
}

}  // namespace sluice::tools
