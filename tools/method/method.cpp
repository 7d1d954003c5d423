#include "method/method.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "method/arbitrary_hint.hpp"
#include "option/input_file.hpp"
#include "option/limits.hpp"
#include "sluice/error.hpp"
#include "sluice/schedule_csv.hpp"

namespace sluice::tools {
namespace {

constexpr std::string_view kAsHint = "hint:";
constexpr std::string_view kAuto = "auto";
constexpr std::string_view kFile = "csv:";

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

[[noreturn]] void refuse(const char* field, std::string_view name) {
  throw ConfigError(field, fmt::format("'{}' is not one of {}, csv:FILE, hint:SCHEDULE", name,
                                       fmt::join(Method::names(), ", ")));
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
  enum class Kind : std::uint8_t { Hint, Auto, Arbitrary, ScheduleAsHint, Schedule };

  std::string name;
  Kind kind = Kind::Hint;
  /// Of the hint or the schedule.
  std::string source;
  /// The schedule, where it comes from one.
  std::shared_ptr<const ScheduleFile> file;

  static Plan of(std::string_view name) {
    if (name.starts_with(kAsHint)) return as_hint(name, name.substr(kAsHint.size()));
    if (name == kAuto || contains(Hint::names(), name)) return as_hint(name, name);
    if (name.starts_with(kFile) || contains(Schedule::names(), name)) return fixed(name);
    refuse("methods", name);
  }

  static Plan of(Kind kind, std::string name, const ScheduleFile& schedule) {
    return {std::move(name), kind, std::string(kFile) + schedule.schedule.name(),
            std::make_shared<ScheduleFile>(schedule)};
  }

  static Plan as_hint(std::string_view name, std::string_view source) {
    if (source == kAuto) return {std::string(name), Kind::Auto, "bfw", nullptr};
    if (contains(Hint::names(), source)) return {std::string(name), Kind::Hint, std::string(source), nullptr};
    if (is_arbitrary_hint(source)) return {std::string(name), Kind::Arbitrary, std::string(source), nullptr};
    if (source.starts_with(kFile) || contains(Schedule::names(), source))
      return {std::string(name), Kind::ScheduleAsHint, std::string(source), load(source)};
    refuse("hint", source);
  }

  static Plan fixed(std::string_view name) {
    if (name.starts_with(kFile) || contains(Schedule::names(), name))
      return {std::string(name), Kind::Schedule, std::string(name), load(name)};
    throw ConfigError(
        "schedule", fmt::format("'{}' is not one of {}, csv:FILE", name, fmt::join(Schedule::names(), ", ")));
  }

  static std::shared_ptr<const ScheduleFile> load(std::string_view source) {
    if (!source.starts_with(kFile)) return nullptr;
    const std::string path(source.substr(kFile.size()));
    return std::make_shared<ScheduleFile>(parse_schedule_csv(read_file("schedule", path), path));
  }

  [[nodiscard]] bool by_hint() const {
    return kind == Kind::Hint || kind == Kind::Auto || kind == Kind::Arbitrary;
  }

  [[nodiscard]] sluice::Hint hint(const Pipeline& pipeline, StageId stage) const {
    return kind == Kind::Arbitrary ? arbitrary_hint(source, pipeline, stage)
                                   : sluice::Hint::named(source, pipeline, stage);
  }

  [[nodiscard]] bool splits(const std::optional<Schedule>& schedule) const {
    if (by_hint()) return source == "bfw" || source == "pace";
    return kind == Kind::ScheduleAsHint && has_weight_grads(*schedule);
  }

  [[nodiscard]] Schedule schedule(const Pipeline& pipeline) const {
    if (!file) return Schedule::named(source, pipeline);
    const auto differs = [&](const std::string& what) {
      throw ConfigError("schedule", fmt::format("{} {}", source.substr(kFile.size()), what));
    };
    if (file->microbatches != pipeline.microbatches()) {
      differs(fmt::format("has {} microbatches, not {}", file->microbatches, pipeline.microbatches()));
    }
    if (file->chunks() != pipeline.chunks())
      differs(fmt::format("has {} chunks, not {}", file->chunks(), pipeline.chunks()));
    for (std::uint32_t chunk = 0; chunk < file->chunks(); ++chunk) {
      const StageId stage = pipeline.stage_of(static_cast<Chunk>(chunk));
      if (file->placement[chunk] == stage) continue;
      differs(fmt::format("has chunk {} on rank {}, not on {}", chunk, file->placement[chunk], stage));
    }
    return file->schedule;
  }

  [[nodiscard]] Pipeline pipeline(const PipelineSettings& settings) const {
    if (file) return file_pipeline(settings);
    if (!by_hint() && Schedule::placement(source) == Placement::V) {
      if (settings.chunks_per_stage != 2) {
        throw ConfigError("chunks-per-stage",
                          fmt::format("{} has 2 chunks a stage, not {}", source, settings.chunks_per_stage));
      }
      return Pipeline::v_shape(settings.stages, settings.microbatches);
    }
    return Pipeline::interleaved(settings.stages, settings.chunks_per_stage, settings.microbatches);
  }

  /// The settings size the work, so the file must agree with them.
  [[nodiscard]] Pipeline file_pipeline(const PipelineSettings& settings) const {
    Pipeline pipeline = file->pipeline();
    const auto check = [&](const char* field, std::uint32_t given, std::uint32_t needed) {
      if (given == needed) return;
      throw ConfigError(field,
                        fmt::format("{} needs {}, not {}", source.substr(kFile.size()), needed, given));
    };
    check("stages", settings.stages, pipeline.stages());
    check("microbatches", settings.microbatches, pipeline.microbatches());
    for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
      check("chunks-per-stage", settings.chunks_per_stage,
            static_cast<std::uint32_t>(pipeline.chunks_of(stage).size()));
    }
    return pipeline;
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

Method Method::in_order(const ScheduleFile& schedule, const Pipeline& pipeline,
                        const MethodSettings& settings) {
  return {Plan::of(Plan::Kind::Schedule, schedule.schedule.name(), schedule), pipeline, settings};
}

Method Method::ranked_by(const ScheduleFile& schedule, const Pipeline& pipeline,
                         const MethodSettings& settings) {
  const std::string name = std::string(kAsHint) + schedule.schedule.name();
  return {Plan::of(Plan::Kind::ScheduleAsHint, name, schedule), pipeline, settings};
}

std::vector<std::string> Method::names() {
  std::vector<std::string> names(Hint::names().begin(), Hint::names().end());
  names.emplace_back(kAuto);
  names.insert(names.end(), Schedule::names().begin(), Schedule::names().end());
  return names;
}

Method::Method(const Plan& plan, const Pipeline& pipeline, const MethodSettings& settings)
    : name_(plan.name), adapts_(plan.kind == Plan::Kind::Auto), pipeline_(pipeline), settings_(settings) {
  std::optional<Schedule> schedule;
  if (!plan.by_hint()) schedule = plan.schedule(pipeline_);
  if (plan.splits(schedule)) pipeline_ = pipeline_.with_split(true);
  if (plan.kind == Plan::Kind::Schedule) policies_ = Policy::fixed(*schedule, pipeline_, settings.rules);
  if (plan.kind == Plan::Kind::ScheduleAsHint) schedule->validate(pipeline_);
  for (StageId stage = 0; stage < pipeline_.stages(); ++stage) {
    if (plan.by_hint()) policies_.push_back(Policy::readiness(plan.hint(pipeline_, stage)));
    if (plan.kind == Plan::Kind::ScheduleAsHint)
      policies_.push_back(Policy::readiness(Hint::from_schedule(*schedule, pipeline_, stage)));
    // Refuses a limit that the stage cannot have.
    [[maybe_unused]] const std::uint32_t slots =
        policies_[stage].slots(pipeline_, stage, settings.limits[stage], settings.rules);
  }
  if (plan.kind == Plan::Kind::Schedule && settings.limit_given) check_limits(*schedule);
}

adapt::AutoHint Method::auto_hint(std::uint32_t depth, sim::GroupSettings group) const {
  std::vector<DispatcherConfig> configs;
  for (StageId stage = 0; stage < pipeline_.stages(); ++stage) configs.push_back(config(stage));
  return {pipeline_, std::move(configs), depth, group};
}

MethodSettings Method::equal_memory() const {
  MethodSettings settings{{}, true, settings_.rules};
  for (StageId stage = 0; stage < pipeline_.stages(); ++stage) {
    if (policies_[stage].mode() != Mode::Fixed) {
      throw ConfigError(
          "equal-memory",
          fmt::format("the first method must be a schedule, but what {} holds in flight depends "
                      "on the run",
                      name_));
    }
    const auto chunks = static_cast<std::uint32_t>(pipeline_.chunks_of(stage).size());
    settings.limits.push_back(
        limit_of_slots(policies_[stage].slots(pipeline_, stage, chunks, Rules{}), chunks));
  }
  return settings;
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
    throw ConfigError("limit", fmt::format("schedule {} needs {} slots on stage {}, limit {} gives {}", name_,
                                           peak, stage, limit, allowed));
  }
}

MethodSettings method_settings(const PipelineSettings& settings) {
  std::vector<std::uint32_t> limits = settings.limits;
  if (limits.empty()) limits.assign(settings.stages, DispatcherConfig{}.limit);
  return {std::move(limits), settings.limit_given, settings.rules};
}

}  // namespace sluice::tools
