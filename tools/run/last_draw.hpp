#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "method/method.hpp"
#include "run/simulation.hpp"
#include "sluice/sim/scenario.hpp"
#include "sluice/trace/run_builder.hpp"
#include "sluice/trace/timeline.hpp"

namespace sluice::tools {

/// Timelines, decision logs and recordings of the last draw of a simulation, as far as they are wanted.
class LastDraw {
 public:
  struct Parts {
    bool timelines = false;
    bool decisions = false;
    bool recordings = false;
  };

  /// @param methods those of the simulation; outlive the draw
  /// @param draw its number
  LastDraw(const sim::Scenario& scenario, const std::vector<Method>& methods, std::uint64_t draw,
           Parts wanted);

  /// Has the simulation keep what is wanted. The draw outlives the settings.
  void watch(SimulationSettings& settings);

  /// What was kept, one entry a method; empty where it was not wanted.
  [[nodiscard]] const std::vector<trace::MethodTimeline>& timelines() const noexcept { return timelines_; }
  [[nodiscard]] const nlohmann::json& decisions() const noexcept { return decisions_; }
  [[nodiscard]] std::vector<trace::RecordedRun> recordings() const;

 private:
  void keep(std::size_t number, const sim::World& world);
  void keep_recording(std::size_t number, const sim::World& world);
  void keep_decisions(std::size_t number, const sim::World& world);

  const std::vector<Method>& methods_;
  std::uint64_t draw_;
  Parts wanted_;
  std::vector<trace::MethodTimeline> timelines_;
  nlohmann::json decisions_;
  std::vector<std::unique_ptr<trace::RunBuilder>> recordings_;
};

}  // namespace sluice::tools
