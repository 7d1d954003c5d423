#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "method/method.hpp"
#include "sluice/sim/scenario.hpp"
#include "sluice/trace/timeline.hpp"

namespace sluice::tools {

/// One method over all seeds. Times are seconds; the vectors have an entry for each seed.
struct SimulatedMethod {
  std::string name;
  std::vector<double> makespans;
  /// Lower bounds of the same draws.
  std::vector<double> bounds;
  /// Means over the stages; the three add up to the makespan.
  std::vector<double> compute, blocked, agreement;
  /// Of groups, over all seeds and stages.
  std::uint64_t decisions = 0;
  std::uint64_t deferrals = 0;
  std::uint64_t picks_differed = 0;
  /// By stage, the most over all seeds.
  std::vector<std::uint32_t> peak_in_flight;

  [[nodiscard]] double median_makespan() const;
  /// Median of makespan / bound.
  [[nodiscard]] double bound_ratio() const;
  /// Share of stages * time in which the devices ran nothing, over all seeds.
  [[nodiscard]] double bubble_fraction() const;
  /// Attempts that decided nothing, a task; 0 where nothing was agreed on.
  [[nodiscard]] double deferrals_per_task() const;
  /// Of one of the vectors above, in the seed of the median makespan (the mean of the two middle ones).
  [[nodiscard]] double at_median(const std::vector<double>& values) const;
};

struct SimulationSettings {
  /// Draws 1 to `seeds`.
  std::uint64_t seeds = 1;
  /// 0 for one a core; changes nothing but the time it takes.
  unsigned threads = 0;
  std::function<void(std::size_t done, std::size_t all)> progress;
  /// Looks at the last draw of each method, from any thread, one method at a time.
  std::function<void(std::size_t method, const sim::World& world)> inspect;
  /// Where the stages of that draw are to record, one a stage; empty for nowhere.
  std::function<std::vector<Recorder*>(std::size_t method)> recorders;
};

/// What the stages of the method's pipeline are set up with.
/// @param recorders one a stage, or empty
[[nodiscard]] std::vector<sim::StageSetup> stage_setups(const Method& method, bool record_decisions = false,
                                                        const std::vector<Recorder*>& recorders = {});

/// How methods of a scenario are bounded.
[[nodiscard]] MethodSettings method_settings(const sim::Scenario& scenario);

/// Runs every method on the same draws.
/// @param methods of pipelines with the scenario's chunks and edges
/// @throws ConfigError naming the field, or StallError
[[nodiscard]] std::vector<SimulatedMethod> simulate_methods(const sim::Scenario& scenario,
                                                            const std::vector<Method>& methods,
                                                            const SimulationSettings& settings);

/// The tasks of a world that kept its runs.
[[nodiscard]] std::vector<trace::TaskSpan> spans_of(const sim::World& world, std::uint32_t stages,
                                                    std::uint64_t iteration);

}  // namespace sluice::tools
