#include "run/what_if.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "method/adaptation.hpp"
#include "run/simulation.hpp"
#include "sluice/error.hpp"
#include "sluice/host/duration_model.hpp"
#include "sluice/seconds.hpp"
#include "sluice/trace/run_summary.hpp"

namespace sluice::tools {
namespace {

using trace::RecordedMessage;
using trace::RecordedRun;
using trace::RecordedTask;

Duration scaled(Duration duration, double factor) {
  return Duration(std::llround(static_cast<double>(duration.count()) * factor));
}

/// Virtual time would run over.
void check_sum(const RecordedRun& run) {
  double sum = 0;
  for (const RecordedTask& each : run.tasks) sum += seconds(each.duration());
  for (const RecordedMessage& each : run.messages) sum += seconds(each.arrived - each.sent);
  if (sum > seconds(kNever) / 2) throw ConfigError("tasks", "take longer than a simulation can last");
}

}  // namespace

RecordedTimes::RecordedTimes(const RecordedRun& run, double weight_grad_share)
    : chunks_(run.pipeline.chunks()),
      microbatches_(run.pipeline.microbatches()),
      edges_(run.pipeline.edges().size()) {
  trace::check_complete(run);
  check_sum(run);
  for (const trace::RecordedIteration& each : run.iterations) iterations_.push_back(each.iteration.index);
  std::sort(iterations_.begin(), iterations_.end());
  tasks_.resize(iterations_.size() * chunks_ * microbatches_);
  messages_.resize(iterations_.size() * edges_ * 2 * microbatches_);
  read_tasks(run);
  for (const RecordedMessage& each : run.messages) {
    const std::size_t at = ((iteration_at(each.id.iteration) * edges_ + each.id.edge) * 2 +
                            static_cast<std::size_t>(each.id.direction)) *
                               microbatches_ +
                           each.id.microbatch;
    messages_[at] = (each.offered - each.sent) + (each.arrived - each.accepted);
  }
  read_shares(weight_grad_share);
  start_overhead_ = scaled(std::chrono::seconds(1), trace::start_overhead(run).bound_by_stage.mean_s);
}

std::size_t RecordedTimes::iteration_at(std::uint64_t index) const {
  return static_cast<std::size_t>(std::lower_bound(iterations_.begin(), iterations_.end(), index) -
                                  iterations_.begin());
}

void RecordedTimes::read_tasks(const RecordedRun& run) {
  for (const RecordedTask& each : run.tasks) {
    Times& times = tasks_[(iteration_at(each.iteration) * chunks_ + each.task.chunk) * microbatches_ +
                          each.task.microbatch];
    switch (each.task.pass) {
      case Pass::Forward:
        times.forward = each.duration();
        break;
      case Pass::Backward:
        times.backward = each.duration();
        times.whole = each.whole;
        break;
      case Pass::WeightGrad:
        times.weight_grad = each.duration();
        break;
    }
  }
}

void RecordedTimes::read_shares(double otherwise) {
  std::vector<double> backward(chunks_, 0);
  std::vector<double> weight_grad(chunks_, 0);
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    if (tasks_[i].whole) continue;
    const std::size_t chunk = i / microbatches_ % chunks_;
    weight_grad[chunk] += seconds(tasks_[i].weight_grad);
    backward[chunk] += seconds(tasks_[i].backward + tasks_[i].weight_grad);
  }
  for (std::size_t chunk = 0; chunk < chunks_; ++chunk)
    shares_.push_back(backward[chunk] > 0 ? weight_grad[chunk] / backward[chunk] : otherwise);
}

Duration RecordedTimes::task(std::uint64_t iteration, const Task& task, bool whole) const {
  const Times& times =
      tasks_[(iteration_at(iteration) * chunks_ + task.chunk) * microbatches_ + task.microbatch];
  const double share = shares_[task.chunk];
  switch (task.pass) {
    case Pass::Forward:
      return times.forward;
    case Pass::Backward:
      if (whole) return times.whole ? times.backward : times.backward + times.weight_grad;
      return times.whole ? scaled(times.backward, 1 - share) : times.backward;
    case Pass::WeightGrad:
      return times.whole ? scaled(times.backward, share) : times.weight_grad;
  }
  return Duration{0};
}

Duration RecordedTimes::message(const MessageId& id) const {
  return messages_[((iteration_at(id.iteration) * edges_ + id.edge) * 2 +
                    static_cast<std::size_t>(id.direction)) *
                       microbatches_ +
                   id.microbatch];
}

double recorded_share(const trace::Recording& recording) {
  const nlohmann::json settings = nlohmann::json::parse(recording.settings);
  const auto emulate = settings.find("emulate");
  if (emulate == settings.end() || !emulate->is_string()) return kDefaultWeightGradShare;
  const host::DurationModel model = host::DurationModel::parse(emulate->get<std::string>());
  const auto whole = static_cast<double>(model.backward().count());
  return whole > 0 ? static_cast<double>(model.weight_grad().count()) / whole : kDefaultWeightGradShare;
}

double Prediction::total_seconds() const {
  return std::accumulate(iteration_seconds.begin(), iteration_seconds.end(), 0.0);
}

sim::Surroundings recorded_surroundings(const RecordedRun& run, const RecordedTimes& times) {
  sim::Surroundings surroundings;
  surroundings.task_time = [&times](const Launch& launch) { return times.task(launch); };
  surroundings.message_delay = [&times](const sim::Transit& transit) { return times.message(transit.id); };
  surroundings.depth = run.launch_ahead;
  surroundings.overhead.task = times.start_overhead();
  return surroundings;
}

Prediction predict(const RecordedRun& run, const RecordedTimes& times, const Method& method) {
  std::vector<sim::StageSetup> setups = stage_setups(method);
  std::optional<Adaptation> adaptation;
  if (method.adapts()) adaptation.emplace(method, run.launch_ahead, sim::GroupSettings{}, setups);
  sim::World world(method.pipeline(), std::move(setups), recorded_surroundings(run, times));
  if (adaptation) {
    // A run has had an iteration to learn from before the first that is measured.
    world.run(run.iterations.front().iteration);
    adaptation->update(world);
  }
  Prediction prediction{method.name(), {}, std::vector<std::uint32_t>(method.pipeline().stages()), 0};
  double busy = 0;
  for (const trace::RecordedIteration& each : run.iterations) {
    prediction.iteration_seconds.push_back(seconds(world.run(each.iteration)));
    if (adaptation) adaptation->update(world);
    for (StageId stage = 0; stage < method.pipeline().stages(); ++stage) {
      const sim::StageReport report = world.report(stage);
      busy += seconds(report.compute);
      prediction.peak_in_flight[stage] = std::max(prediction.peak_in_flight[stage], report.peak_in_flight);
    }
  }
  const double whole = prediction.total_seconds() * method.pipeline().stages();
  prediction.bubble_fraction = whole > 0 ? 1 - busy / whole : 0;
  return prediction;
}

}  // namespace sluice::tools
