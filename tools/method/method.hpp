#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/adapt/auto_hint.hpp"
#include "sluice/dispatcher.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/schedule_csv.hpp"

namespace sluice::tools {

/// The part of a run's settings that decides what may run when.
struct PipelineSettings {
  std::uint32_t stages = 4;
  std::uint32_t chunks_per_stage = 1;
  std::uint32_t microbatches = 16;
  /// Most microbatches in flight, one entry a stage; empty for the default on every stage.
  std::vector<std::uint32_t> limits;
  /// The limits were asked for, not defaulted: a schedule that needs more is refused.
  bool limit_given = false;
  Rules rules{};
};

/// What bounds the methods of one pipeline.
struct MethodSettings {
  /// One a stage.
  std::vector<std::uint32_t> limits;
  /// The limits were asked for, not defaulted: a schedule that needs more is refused.
  bool limit_given = false;
  Rules rules{};
};

/// A way of ordering the work of a pipeline: a hint run readiness-first, or a fixed schedule.
///
/// Its name is that of a hint or a schedule, `csv:FILE` for a schedule in PyTorch's notation, `hint:NAME` or
/// `hint:csv:FILE` for a schedule's order as a hint, `hint:reversed` or `hint:random:SEED` for a bad one, or
/// `auto` for a hint that follows what is measured.
class Method {
 public:
  /// @param pipeline with backwards that are not split; the method splits them where it has to
  /// @throws ConfigError naming the field
  Method(std::string_view name, const Pipeline& pipeline, const MethodSettings& settings);
  /// On the pipeline that the settings describe, its chunks placed as the method needs them.
  Method(std::string_view name, const PipelineSettings& settings);

  /// @param name of a hint or of a schedule
  [[nodiscard]] static Method hint(std::string_view name, const PipelineSettings& settings);
  /// @throws ConfigError naming `schedule` if the name is a hint's
  [[nodiscard]] static Method schedule(std::string_view name, const PipelineSettings& settings);
  /// A schedule that was made or read elsewhere, in its order.
  /// @throws ConfigError naming `schedule` if it is for other chunks, stages or microbatches
  [[nodiscard]] static Method in_order(const ScheduleFile& schedule, const Pipeline& pipeline,
                                       const MethodSettings& settings);
  /// Its order as a hint.
  /// @throws as `in_order`
  [[nodiscard]] static Method ranked_by(const ScheduleFile& schedule, const Pipeline& pipeline,
                                        const MethodSettings& settings);
  /// The pipeline that the settings describe, its chunks placed as the method of that name needs them,
  /// its backwards not split.
  /// @throws ConfigError naming the field
  [[nodiscard]] static Pipeline pipeline_for(std::string_view name, const PipelineSettings& settings);
  /// Names of all hints and schedules.
  [[nodiscard]] static std::vector<std::string> names();

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// The hint is to be ranked anew between iterations: `auto_hint` says how.
  [[nodiscard]] bool adapts() const noexcept { return adapts_; }
  /// @param depth launched tasks a device holds at once
  [[nodiscard]] adapt::AutoHint auto_hint(std::uint32_t depth, sim::GroupSettings group = {}) const;
  [[nodiscard]] const Pipeline& pipeline() const noexcept { return pipeline_; }
  [[nodiscard]] const MethodSettings& settings() const noexcept { return settings_; }
  [[nodiscard]] const Policy& policy(StageId stage) const { return policies_[stage]; }
  /// The settings with limits that give each stage the slots this method's schedule needs and no more:
  /// under them all methods are compared at equal memory.
  /// @throws ConfigError naming `equal-memory` for a hint: what it holds depends on the run
  [[nodiscard]] MethodSettings equal_memory() const;
  /// Limit, rules and place of a stage's dispatcher.
  [[nodiscard]] DispatcherConfig config(StageId stage) const;

 private:
  struct Plan;
  Method(const Plan& plan, const Pipeline& pipeline, const MethodSettings& settings);
  void check_limits(const Schedule& schedule) const;

  std::string name_;
  bool adapts_ = false;
  Pipeline pipeline_;
  MethodSettings settings_;
  /// One a stage.
  std::vector<Policy> policies_;
};

/// The settings' limits.
[[nodiscard]] MethodSettings method_settings(const PipelineSettings& settings);

}  // namespace sluice::tools
