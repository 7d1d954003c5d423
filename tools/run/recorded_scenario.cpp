#include "run/recorded_scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "run/what_if.hpp"
#include "sluice/error.hpp"

namespace sluice::tools {
namespace {

void check_same_size(const Pipeline& scenario, const Pipeline& recorded) {
  if (scenario.chunks() == recorded.chunks() && scenario.microbatches() == recorded.microbatches()) return;
  throw ConfigError(
      "pipeline",
      fmt::format("the recording has {} chunks and {} microbatches, the scenario {} and {}",
                  recorded.chunks(), recorded.microbatches(), scenario.chunks(), scenario.microbatches()));
}

std::vector<std::uint64_t> training_iterations(const trace::RecordedRun& run) {
  std::vector<std::uint64_t> indices;
  for (const trace::RecordedIteration& each : run.iterations) {
    if (each.iteration.kind == IterationKind::Training) indices.push_back(each.iteration.index);
  }
  if (indices.empty()) throw ConfigError("iterations", "the recording has none that trains");
  std::sort(indices.begin(), indices.end());
  return indices;
}

host::DurationModel mean_times(const RecordedTimes& times, const std::vector<std::uint64_t>& iterations,
                               const Pipeline& pipeline, Chunk chunk) {
  const auto mean_ns = [&](Pass pass) {
    double sum = 0;
    for (const std::uint64_t iteration : iterations) {
      for (std::uint32_t i = 0; i < pipeline.microbatches(); ++i) {
        const Task task{static_cast<Microbatch>(i), chunk, pass};
        sum += static_cast<double>(times.task(iteration, task, pass == Pass::Backward).count());
      }
    }
    return sum / (static_cast<double>(iterations.size()) * pipeline.microbatches());
  };
  return host::DurationModel({mean_ns(Pass::Forward), mean_ns(Pass::Backward), mean_ns(Pass::WeightGrad)});
}

}  // namespace

void use_recorded_times(sim::Scenario& scenario, const trace::RecordedRun& run, double weight_grad_share) {
  check_same_size(scenario.pipeline, run.pipeline);
  const std::vector<std::uint64_t> iterations = training_iterations(run);
  const auto times = std::make_shared<const RecordedTimes>(run, weight_grad_share);
  for (std::uint32_t chunk = 0; chunk < scenario.pipeline.chunks(); ++chunk)
    scenario.times[chunk] = mean_times(*times, iterations, scenario.pipeline, static_cast<Chunk>(chunk));
  scenario.recorded_time = [times, iterations](std::uint64_t draw, const Task& task, bool whole) {
    // Draw 0 is the warm-up.
    const std::size_t at = (draw + iterations.size() - 1) % iterations.size();
    return std::optional(times->task(iterations[at], task, whole));
  };
}

}  // namespace sluice::tools
