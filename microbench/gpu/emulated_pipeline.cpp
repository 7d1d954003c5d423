#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "gpu/subjects.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/cuda/cuda_executor.hpp"
#include "sluice/cuda/device.hpp"
#include "sluice/cuda/emulated_code.hpp"
#include "sluice/host/delay_model.hpp"
#include "sluice/host/duration_model.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/host/threaded_run.hpp"
#include "sluice/schedule.hpp"
#include "sluice/sim/scenario.hpp"

namespace sluice::microbench {
namespace {

constexpr std::uint32_t kThreads = 1024;
constexpr std::uint32_t kStages = 4;
constexpr const char* kDelays = "tail:0.2,8";
constexpr Goal kDeviation{5, true};

/// What is run, on the device and in the simulator.
struct Model {
  Pipeline pipeline;
  host::DurationModel times;
  host::DelayModel delays;
  std::uint64_t seed;
  std::uint64_t iterations;
};

struct Method {
  std::string name;
  std::vector<Policy> policies;
};

Method by_readiness(const Pipeline& pipeline) {
  Method method{"readiness first (BF)", {}};
  for (StageId stage = 0; stage < pipeline.stages(); ++stage)
    method.policies.push_back(Policy::readiness(Hint::named("bf", pipeline, stage)));
  return method;
}

Method in_order(const Pipeline& pipeline) {
  return {"fixed order (1F1B)", Policy::fixed(Schedule::one_f_one_b(pipeline), pipeline, Rules{})};
}

/// What one stage gets of the device, so that all fit on it at once.
cuda::EmulatedCode::Options share_of_device() {
  int processors = 0;
  cuda::check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0),
              "asking how many multiprocessors the device has");
  return {std::max(1U, static_cast<std::uint32_t>(processors) / kStages), kThreads};
}

/// Seconds of each iteration, counted from 1 as the simulator's are.
std::vector<double> run(const Model& model, const Method& method) {
  const host::SteadyClock clock;
  cuda::EmulatedCode code(
      [&](const Launch& launch) {
        return model.times.draw(model.seed, launch.iteration, launch.task, launch.whole, 1);
      },
      share_of_device());
  host::Workload workload;
  workload.make_device = [&](std::uint32_t rank, StageId stage, std::uint32_t slots, Wake& /*wake*/) {
    cuda::CudaExecutor::Options options;
    options.rank = rank;
    options.depth = 1;
    return std::make_unique<cuda::CudaExecutor>(clock, model.pipeline, stage, slots, code, options);
  };
  host::RunSettings settings;
  settings.seed = model.seed;
  settings.delays = model.delays;
  settings.poll_interval = std::chrono::microseconds(10);
  host::ThreadedRun pipeline(
      model.pipeline, [&](StageId stage) { return method.policies[stage]; }, workload, settings);
  pipeline.run({0});
  std::vector<double> seconds;
  for (std::uint64_t index = 1; index <= model.iterations; ++index)
    seconds.push_back(std::chrono::duration<double>(pipeline.run({index}).duration()).count());
  return seconds;
}

/// The same in the simulator: the runtime's dispatchers on the same draws.
std::vector<double> predict(const Model& model, const Method& method) {
  sim::Scenario scenario(model.pipeline);
  std::fill(scenario.times.begin(), scenario.times.end(), model.times);
  for (sim::Link& link : scenario.links) link.jitter = model.delays;
  scenario.seed = model.seed;
  const auto setups = [&] {
    std::vector<sim::StageSetup> made;
    for (StageId stage = 0; stage < model.pipeline.stages(); ++stage) {
      DispatcherConfig config;
      config.rank = config.stage = stage;
      made.push_back({config, method.policies[stage]});
    }
    return made;
  };
  std::vector<double> seconds;
  for (std::uint64_t index = 1; index <= model.iterations; ++index) {
    const sim::Outcome outcome = sim::simulate(scenario, model.pipeline, setups, index);
    seconds.push_back(std::chrono::duration<double>(outcome.makespan).count());
  }
  return seconds;
}

double sum(const std::vector<double>& values) {
  double total = 0;
  for (const double value : values) total += value;
  return total;
}

std::vector<double> milliseconds(std::vector<double> seconds) {
  for (double& each : seconds) each *= 1000;
  return seconds;
}

/// @param measured_s of all iterations together, for the comparison of methods
std::vector<Row> rows_of(const Model& model, const Method& method, double& measured_s) {
  const std::vector<double> measured = run(model, method);
  const std::vector<double> predicted = predict(model, method);
  measured_s = sum(measured);
  Row time = median_row("iteration, " + method.name, "ms", milliseconds(measured));
  time.reference_name = "the simulator's prediction";
  time.reference = spread_of(milliseconds(predicted)).median;
  Row deviation;
  deviation.name = "prediction against measurement, " + method.name;
  deviation.unit = "%";
  deviation.value = (sum(predicted) / measured_s - 1) * 100;
  deviation.goal = kDeviation;
  return {time, deviation};
}

}  // namespace

std::vector<Row> measure_emulated_pipeline(const Effort& effort) {
  cuda::use_device(0);
  const Model model{Pipeline::chain(kStages, effort.times(32, 4)),
                    host::DurationModel::parse("f=2ms,b=4ms,sigma=0.1"), host::DelayModel::parse(kDelays),
                    effort.seed, effort.times(10, 1)};
  double readiness_s = 0;
  double fixed_s = 0;
  std::vector<Row> rows = rows_of(model, by_readiness(model.pipeline), readiness_s);
  for (Row& row : rows_of(model, in_order(model.pipeline), fixed_s)) rows.push_back(std::move(row));
  Row speed_up;
  speed_up.name = "time in fixed order over time by readiness";
  speed_up.value = fixed_s / readiness_s;
  rows.push_back(std::move(speed_up));
  return rows;
}

}  // namespace sluice::microbench
