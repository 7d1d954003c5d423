#include "method_run.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "sluice/error.hpp"

namespace sluice::tools {
namespace {

/// A task that never returns would keep the run from being taken down, and its report from being read:
/// the process leaves at once, there is nothing to save.
host::IterationReport run_or_leave(host::ThreadedRun& run, const Iteration& iteration) {
  try {
    return run.run(iteration);
  } catch (const StallError& error) {
    fmt::print(stderr, "sluice: {}\n", error.what());
    std::fflush(nullptr);
    std::_Exit(EXIT_FAILURE);
  }
}

}  // namespace

MethodRun::MethodRun(const RunOptions& options, const Method& method)
    : method_(method),
      keep_decisions_(!options.output.decisions.empty()),
      statistics_(method.name(), method.pipeline().stages()),
      decisions_({{"method", method.name()}, {"stages", nlohmann::json::array()}}) {
  for (std::uint32_t stage = 0; stage < method.pipeline().stages(); ++stage)
    decisions_["stages"].push_back(nlohmann::json::array());
  host::Workload workload = make_workload(options);
  host::ThreadedRunOptions threaded = options.threaded();
  if (!options.output.record.empty()) {
    const MethodSettings& settings = method_.settings();
    builder_ = std::make_unique<trace::RunBuilder>(trace::RecordedRun{
        method_.name(), method_.pipeline(), settings.limits, settings.rules, options.launch_ahead});
    threaded.recorders = builder_->recorders();
  }
  run_ = std::make_unique<host::ThreadedRun>(
      method_.pipeline(), [this](StageId stage) { return method_.policy(stage); }, std::move(workload),
      threaded);
}

host::Workload MethodRun::make_workload(const RunOptions& options) {
  if (!options.emulated()) {
    model_ = std::make_unique<GptWorkload>(options, method_.pipeline());
    return model_->workload();
  }
  host::Workload workload;
  workload.task_time = [model = options.durations(), seed = options.seed,
                        chunks = options.pipeline.chunks_per_stage](const Launch& launch) {
    return model.draw(seed, launch.iteration, launch.task, launch.whole, chunks);
  };
  return workload;
}

void MethodRun::run(const Iteration& iteration, bool measure) {
  const host::IterationReport report = run_or_leave(*run_, iteration);
  if (measure) {
    std::vector<std::span<const Decision>> logs;
    for (StageId stage = 0; stage < method_.pipeline().stages(); ++stage)
      logs.push_back(run_->log(stage).decisions());
    statistics_.add(iteration, report, logs);
    if (keep_decisions_) keep_decisions();
    if (builder_) builder_->keep(iteration, logs);
  } else if (builder_) {
    builder_->drop();
  }
  for (StageId stage = 0; stage < method_.pipeline().stages(); ++stage) run_->log(stage).clear();
}

void MethodRun::keep_decisions() {
  for (StageId stage = 0; stage < method_.pipeline().stages(); ++stage) {
    for (const Decision& decision : run_->log(stage).decisions())
      decisions_["stages"][stage].push_back(to_json(decision));
  }
}

std::optional<double> MethodRun::loss() const {
  return model_ ? std::optional(model_->loss()) : std::nullopt;
}

std::optional<trace::RecordedRun> MethodRun::recorded() const {
  return builder_ ? std::optional(builder_->run()) : std::nullopt;
}

std::optional<std::string> MethodRun::parameters_sha256() const {
  return model_ ? std::optional(model_->parameters_sha256()) : std::nullopt;
}

}  // namespace sluice::tools
