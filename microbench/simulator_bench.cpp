#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "sluice/host/delay_model.hpp"
#include "sluice/sim/scenario.hpp"

namespace sluice::microbench {
namespace {

constexpr std::int64_t kOtherSide = 64;

std::vector<sim::StageSetup> setups_of(const Pipeline& pipeline, const std::string& method) {
  std::vector<Policy> fixed;
  if (method == "1f1b" || method == "zb-h1")
    fixed = Policy::fixed(Schedule::named(method, pipeline), pipeline, Rules{});
  std::vector<sim::StageSetup> setups;
  for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
    DispatcherConfig config;
    config.rank = config.stage = stage;
    setups.push_back(
        {config, fixed.empty() ? Policy::readiness(Hint::named(method, pipeline, stage)) : fixed[stage]});
  }
  return setups;
}

/// Whole iterations in virtual time; `per_task` is processor time of the iteration alone.
void simulate(benchmark::State& state, const char* method, bool split, const char* jitter) {
  const Pipeline pipeline = Pipeline::chain(static_cast<std::uint32_t>(state.range(0)),
                                            static_cast<Microbatch>(state.range(1)), split);
  sim::Scenario scenario(pipeline.with_split(false));
  for (auto& times : scenario.times) times = host::DurationModel({10e6, 20e6, 10e6}, 0.2);
  for (sim::Link& link : scenario.links) link.jitter = host::DelayModel::parse(jitter);
  sim::World world(pipeline, setups_of(pipeline, method), sim::surroundings(scenario));
  std::uint64_t iteration = 0;
  for (auto _ : state) benchmark::DoNotOptimize(world.run({iteration++, IterationKind::Training}));
  const double tasks =
      static_cast<double>(state.iterations() * state.range(0) * state.range(1)) * (split ? 3 : 2);
  state.SetItemsProcessed(static_cast<std::int64_t>(tasks));
  state.counters["per_task"] =
      benchmark::Counter(tasks, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

/// More stages, then more microbatches: the cost of a task stays.
void along_both_sides(benchmark::internal::Benchmark* benchmark) {
  for (const std::int64_t stages : {8, 32, 128, 512, 1024}) benchmark->Args({stages, kOtherSide});
  for (const std::int64_t microbatches : {8, 256, 1024}) benchmark->Args({kOtherSide, microbatches});
  benchmark->ArgNames({"stages", "microbatches"})->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(simulate, 1f1b, "1f1b", false, "j0")->Apply(along_both_sides);
BENCHMARK_CAPTURE(simulate, bf, "bf", false, "j0")->Apply(along_both_sides);
BENCHMARK_CAPTURE(simulate, bfw, "bfw", true, "j0")->Apply(along_both_sides);
BENCHMARK_CAPTURE(simulate, bfw_tail, "bfw", true, "tail:0.3,10")->Apply(along_both_sides);
BENCHMARK_CAPTURE(simulate, zb_h1, "zb-h1", true, "j0")->Apply(along_both_sides);

}  // namespace
}  // namespace sluice::microbench
