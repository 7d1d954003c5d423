#include "run/simulation.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <utility>

#include "method/adaptation.hpp"
#include "run/parallel.hpp"
#include "run/speed_up.hpp"
#include "sluice/seconds.hpp"

namespace sluice::tools {
namespace {

/// Where the chunks live: all that a method changes about a pipeline for its bound.
std::vector<StageId> placement_of(const Pipeline& pipeline) {
  std::vector<StageId> stages;
  for (std::uint32_t chunk = 0; chunk < pipeline.chunks(); ++chunk)
    stages.push_back(pipeline.stage_of(static_cast<Chunk>(chunk)));
  return stages;
}

/// All (method, seed) pairs, and the bounds of all (placement, seed) pairs.
class Sweep {
 public:
  Sweep(const sim::Scenario& scenario, const std::vector<Method>& methods, const SimulationSettings& settings)
      : scenario_(scenario), methods_(methods), settings_(settings) {
    std::map<std::vector<StageId>, std::size_t> known;
    for (const Method& method : methods) {
      const auto [at, added] = known.emplace(placement_of(method.pipeline()), placements_.size());
      if (added) placements_.push_back(&method.pipeline());
      placement_of_.push_back(at->second);
    }
    bounds_.resize(placements_.size(), std::vector<double>(settings.seeds));
    for (const Method& method : methods) {
      SimulatedMethod result;
      result.name = method.name();
      for (auto* values : {&result.makespans, &result.compute, &result.blocked, &result.agreement})
        values->resize(settings.seeds);
      result.peak_in_flight.resize(method.pipeline().stages());
      results_.push_back(std::move(result));
    }
  }

  std::vector<SimulatedMethod> run() {
    const std::size_t all = (placements_.size() + methods_.size()) * settings_.seeds;
    run_parallel(
        all, settings_.threads,
        [this](std::size_t job) { run(job / settings_.seeds, job % settings_.seeds); },
        [&](std::size_t done) {
          if (settings_.progress) settings_.progress(done, all);
        });
    for (std::size_t i = 0; i < methods_.size(); ++i) results_[i].bounds = bounds_[placement_of_[i]];
    return std::move(results_);
  }

 private:
  void run(std::size_t what, std::uint64_t seed) {
    if (what < methods_.size()) {
      run_method(what, seed);
    } else {
      const std::size_t placement = what - methods_.size();
      bounds_[placement][seed] = seconds(sim::bound(scenario_, *placements_[placement], seed + 1));
    }
  }

  void run_method(std::size_t number, std::uint64_t seed) {
    const Method& method = methods_[number];
    const bool inspected = settings_.inspect && seed + 1 == settings_.seeds;
    sim::Inspect inspect;
    if (inspected) {
      inspect = [&](const sim::World& world, std::uint32_t replica) {
        const std::lock_guard lock(mutex_);
        if (replica == 0) settings_.inspect(number, world);
      };
    }
    std::vector<Recorder*> recorders;
    if (inspected && settings_.recorders) recorders = settings_.recorders(number);
    std::unique_ptr<Adaptation> adaptation;
    const auto setups = [&] {
      // The first replica records.
      std::vector<sim::StageSetup> made = stage_setups(method, inspected, std::exchange(recorders, {}));
      if (method.adapts() && !adaptation)
        adaptation = std::make_unique<Adaptation>(method, scenario_.depth, scenario_.group, made);
      return made;
    };
    // All replicas hold the hints that the first one has measured.
    const auto learn = [&](sim::World& world, std::uint32_t replica) {
      if (replica == 0) adaptation->update(world);
      if (replica > 0) adaptation->rank(world);
    };
    note(results_[number], seed,
         sim::simulate(scenario_, method.pipeline(), setups, seed + 1, inspect,
                       method.adapts() ? sim::Learn(learn) : sim::Learn()));
  }

  void note(SimulatedMethod& result, std::uint64_t seed, const sim::Outcome& outcome) {
    const auto stages = static_cast<Duration::rep>(outcome.stages.size());
    Duration compute{0};
    Duration agreement{0};
    const std::lock_guard lock(mutex_);
    for (std::size_t stage = 0; stage < outcome.stages.size(); ++stage) {
      compute += outcome.stages[stage].compute;
      agreement += outcome.stages[stage].agreement;
      result.decisions += outcome.stages[stage].decisions;
      result.deferrals += outcome.stages[stage].deferrals;
      result.picks_differed += outcome.stages[stage].picks_differed;
      result.peak_in_flight[stage] =
          std::max(result.peak_in_flight[stage], outcome.stages[stage].peak_in_flight);
    }
    result.makespans[seed] = seconds(outcome.makespan);
    result.compute[seed] = seconds(compute / stages);
    result.agreement[seed] = seconds(agreement / stages);
    result.blocked[seed] = seconds(outcome.makespan - compute / stages - agreement / stages);
  }

  const sim::Scenario& scenario_;
  const std::vector<Method>& methods_;
  const SimulationSettings& settings_;
  std::vector<const Pipeline*> placements_;
  std::vector<std::size_t> placement_of_;
  std::vector<std::vector<double>> bounds_;
  std::vector<SimulatedMethod> results_;
  std::mutex mutex_;
};

}  // namespace

double SimulatedMethod::median_makespan() const { return median(makespans); }

double SimulatedMethod::bound_ratio() const {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < makespans.size(); ++i)
    ratios.push_back(bounds[i] > 0 ? makespans[i] / bounds[i] : 1.0);
  return median(std::move(ratios));
}

double SimulatedMethod::bubble_fraction() const {
  const double whole = std::accumulate(makespans.begin(), makespans.end(), 0.0);
  const double busy = std::accumulate(compute.begin(), compute.end(), 0.0);
  return whole > 0 ? 1 - busy / whole : 0;
}

double SimulatedMethod::deferrals_per_task() const {
  return decisions > 0 ? static_cast<double>(deferrals) / static_cast<double>(decisions) : 0;
}

double SimulatedMethod::at_median(const std::vector<double>& values) const {
  std::vector<std::size_t> order(makespans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [this](std::size_t a, std::size_t b) { return makespans[a] < makespans[b]; });
  if (order.empty()) return 0;
  return (values[order[(order.size() - 1) / 2]] + values[order[order.size() / 2]]) / 2;
}

std::vector<sim::StageSetup> stage_setups(const Method& method, bool record_decisions,
                                          const std::vector<Recorder*>& recorders) {
  std::vector<sim::StageSetup> setups;
  for (StageId stage = 0; stage < method.pipeline().stages(); ++stage) {
    DispatcherConfig config = method.config(stage);
    config.record_decisions = record_decisions;
    if (!recorders.empty()) config.recorder = recorders[stage];
    setups.push_back({config, method.policy(stage)});
  }
  return setups;
}

MethodSettings method_settings(const sim::Scenario& scenario) {
  return {scenario.limits, scenario.limit_given, scenario.rules};
}

std::vector<SimulatedMethod> simulate_methods(const sim::Scenario& scenario,
                                              const std::vector<Method>& methods,
                                              const SimulationSettings& settings) {
  scenario.validate();
  return Sweep(scenario, methods, settings).run();
}

std::vector<trace::TaskSpan> spans_of(const sim::World& world, std::uint32_t stages,
                                      std::uint64_t iteration) {
  std::vector<trace::TaskSpan> spans;
  for (StageId stage = 0; stage < stages; ++stage) {
    for (const Done& done : world.ran(stage))
      spans.push_back({done.task, iteration, stage, done.whole, seconds(done.started), seconds(done.ended)});
  }
  return spans;
}

}  // namespace sluice::tools
