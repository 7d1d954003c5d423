#include "run/method_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "run/process_session.hpp"
#include "run/profiling.hpp"
#include "sluice/error.hpp"
#include "sluice/host/threaded_run.hpp"

namespace sluice::tools {
namespace {

/// A task that never returns would keep the run from being taken down, and its report from being read:
/// the process leaves at once, there is nothing to save.
///
/// So would one that waits in a collective for a rank that is gone: where ranks are processes, any failure
/// ends it so.
host::IterationReport run_or_leave(host::PipelineRun& run, const Iteration& iteration,
                                   ProcessSession* session) {
  const auto leave = [session](const std::exception& error) {
    if (session != nullptr) session->fail(error.what());
    fmt::print(stderr, "sluice: {}\n", error.what());
    std::fflush(nullptr);
    std::_Exit(EXIT_FAILURE);
  };
  try {
    return run.run(iteration);
  } catch (const StallError& error) {
    leave(error);
  } catch (const std::exception& error) {
    if (session != nullptr) leave(error);
    throw;
  }
  return {};
}

}  // namespace

MethodRun::MethodRun(const RunOptions& options, const Method& method, const Profiling& profiling,
                     ProcessSession* session)
    : method_(method),
      session_(session),
      keep_decisions_(!options.output.decisions.empty()),
      keep_recording_(!options.output.record.empty()),
      statistics_(method.name(), method.pipeline().stages()),
      decisions_({{"method", method.name()}, {"stages", nlohmann::json::array()}}) {
  for (std::uint32_t stage = 0; stage < method.pipeline().stages(); ++stage)
    decisions_["stages"].push_back(nlohmann::json::array());
  host::RunSettings settings = options.settings();
  settings.limits = method_.settings().limits;
  if (options.emulated() && !options.delays().uses_average()) {
    message_time_ = [delays = options.delays(), seed = options.seed](const MessageId& id) {
      return std::optional(delays.draw(seed, id, Duration{0}));
    };
  }
  if (keep_recording_ || message_time_) {
    builder_ = std::make_unique<trace::RunBuilder>(trace::RecordedRun{
        method_.name(), method_.pipeline(), settings.limits, settings.rules, options.launch_ahead});
    settings.recorders = builder_->recorders();
  }
  if (method_.adapts()) {
    adaptation_ = std::make_unique<Adaptation>(
        Adaptation{{}, {}, adapt::Measurements(method_.pipeline()), method_.auto_hint(options.launch_ahead)});
    if (!builder_) {
      for (StageId stage = 0; stage < method_.pipeline().stages(); ++stage)
        adaptation_->own.emplace_back(Recorder::room_for_iteration(method_.pipeline(), stage));
      for (Recorder& recorder : adaptation_->own) settings.recorders.push_back(&recorder);
    }
    adaptation_->recorders = settings.recorders;
  }
  observers_ = profiling.observers(method_.pipeline(), method_.name(), session_);
  for (const auto& observer : observers_) settings.observers.push_back(observer.get());
  run_ = start(options, std::move(settings));
}

MethodRun::~MethodRun() = default;

std::unique_ptr<host::PipelineRun> MethodRun::start(const RunOptions& options, host::RunSettings settings) {
  host::Workload workload = make_workload(options);
  if (session_ == nullptr) {
    return std::make_unique<host::ThreadedRun>(
        method_.pipeline(), [this](StageId stage) { return method_.policy(stage); }, std::move(workload),
        settings);
  }
  const StageId stage = session_->place().stage;
  return session_->run(method_.pipeline(), method_.policy(stage), std::move(workload), std::move(settings));
}

host::Workload MethodRun::make_workload(const RunOptions& options) {
  if (!options.emulated()) {
    model_ = std::make_unique<GptWorkload>(options, method_.pipeline(), session_);
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
  const host::IterationReport report = run_or_leave(*run_, iteration, session_);
  if (model_) loss_ = model_->loss();
  spent_ += report.duration();
  if (adaptation_ && iteration.kind == IterationKind::Training) adapt();
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

void MethodRun::adapt() {
  adaptation_->measured.add(adaptation_->recorders);
  for (Recorder& recorder : adaptation_->own) recorder.clear();
  if (!adaptation_->hint.update(adaptation_->measured)) return;
  for (StageId stage = 0; stage < method_.pipeline().stages(); ++stage)
    run_->rank_by(stage, adaptation_->hint.hints()[stage]);
}

void MethodRun::keep_decisions() {
  for (StageId stage = 0; stage < method_.pipeline().stages(); ++stage) {
    for (const Decision& decision : run_->log(stage).decisions())
      decisions_["stages"][stage].push_back(to_json(decision));
  }
}

std::optional<trace::RecordedRun> MethodRun::recorded() const {
  return keep_recording_ ? std::optional(builder_->run()) : std::nullopt;
}

std::optional<sim::Overhead> MethodRun::overhead() const {
  if (!message_time_) return std::nullopt;
  const trace::StartOverhead measured = trace::start_overhead(builder_->run(), message_time_);
  const auto rounded = [](double seconds) {
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(std::max(0.0, seconds)));
  };
  // A message leaves when the end of its task has been dealt with.
  const double task_s = measured.bound_by_stage.mean_s;
  const double hop_s = measured.bound_by_message.count > 0 ? measured.bound_by_message.mean_s - task_s : 0;
  return sim::Overhead{rounded(task_s), rounded(hop_s)};
}

std::optional<GroupStatistics> MethodRun::agreement() const {
  const std::vector<AgreementStatistics> ranks = run_->agreements();
  if (ranks.empty()) return std::nullopt;
  const process::RankGrid& grid = session_->grid();
  GroupStatistics all;
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const AgreementStatistics& own = ranks[rank];
    const double share = std::chrono::duration<double>(own.idle) / std::chrono::duration<double>(spent_);
    all.idle_share += share / static_cast<double>(ranks.size());
    all.highest_idle_share = std::max(all.highest_idle_share, share);
    // The counts are the same on all ranks of a group.
    if (grid.place_of(rank).member != 0) continue;
    all.decisions += own.decisions;
    all.attempts += own.attempts;
    all.deferrals += own.deferrals;
    all.picks_differed += own.picks_differed;
  }
  return all;
}

nlohmann::json to_json(const GroupStatistics& statistics) {
  return {{"decisions", statistics.decisions},   {"attempts", statistics.attempts},
          {"deferrals", statistics.deferrals},   {"picks_differed", statistics.picks_differed},
          {"idle_share", statistics.idle_share}, {"highest_idle_share", statistics.highest_idle_share}};
}

std::optional<std::string> MethodRun::parameters_sha256() const {
  return model_ ? std::optional(model_->parameters_sha256()) : std::nullopt;
}

}  // namespace sluice::tools
