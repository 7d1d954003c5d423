#include "run/prediction.hpp"

#include <numeric>

#include "option/simulate_options.hpp"
#include "run/simulation.hpp"

namespace sluice::tools {
namespace {

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

double simulated_total(const sim::Scenario& scenario, const Method& method, std::uint64_t iterations) {
  SimulationSettings settings;
  settings.seeds = iterations;
  return sum(simulate_methods(scenario, {method}, settings).front().makespans);
}

}  // namespace

std::vector<RunPrediction> predict_runs(const PipelineOptions& options,
                                        std::span<const std::unique_ptr<MethodRun>> runs,
                                        std::uint64_t iterations) {
  std::vector<RunPrediction> predictions;
  for (const auto& run : runs) {
    sim::Scenario scenario = emulated_scenario(options);
    const double measured_s = sum(run->statistics().iteration_seconds());
    RunPrediction prediction;
    prediction.total_s = simulated_total(scenario, run->method(), iterations);
    prediction.error = prediction.total_s / measured_s - 1;
    scenario.overhead = run->overhead().value();
    prediction.total_with_overhead_s = simulated_total(scenario, run->method(), iterations);
    prediction.error_with_overhead = prediction.total_with_overhead_s / measured_s - 1;
    predictions.push_back(prediction);
  }
  return predictions;
}

}  // namespace sluice::tools
