#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/dispatcher.hpp"
#include "sluice/pipeline.hpp"

namespace sluice::tools {

/// The part of a run's settings that decides what may run when.
struct PipelineSettings {
  std::uint32_t stages = 4;
  std::uint32_t chunks_per_stage = 1;
  std::uint32_t microbatches = 16;
  std::uint32_t limit = 32;
  /// The limit was asked for, not defaulted: a schedule that needs more is refused.
  bool limit_given = false;
  Rules rules{};
};

/// A way of ordering the work of a pipeline: a hint run readiness-first, or a fixed schedule.
class Method {
 public:
  /// @param name of a hint or a schedule
  /// @throws ConfigError naming the field
  Method(std::string_view name, const PipelineSettings& settings);

  [[nodiscard]] static Method hint(std::string_view name, const PipelineSettings& settings);
  [[nodiscard]] static Method schedule(std::string_view name, const PipelineSettings& settings);
  /// Names of all hints and schedules.
  [[nodiscard]] static std::vector<std::string> names();

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const Pipeline& pipeline() const noexcept { return pipeline_; }
  [[nodiscard]] const Policy& policy(StageId stage) const { return policies_[stage]; }

 private:
  Method(std::string_view name, bool fixed, const PipelineSettings& settings);
  void check_limit(const Schedule& schedule, const PipelineSettings& settings) const;

  std::string name_;
  Pipeline pipeline_;
  /// One a stage.
  std::vector<Policy> policies_;
};

}  // namespace sluice::tools
