#include "run/run_statistics.hpp"
#include "run/speed_up.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "sluice/seconds.hpp"

namespace sluice::tools {
namespace {

constexpr std::size_t kMostSpans = 200'000;

}  // namespace

double StageStatistics::dispatch_ns_per_task() const {
  return tasks > 0 ? dispatch_s * 1e9 / static_cast<double>(tasks) : 0.0;
}

RunStatistics::RunStatistics(std::string name, std::uint32_t stages)
    : name_(std::move(name)), stages_(stages) {}

void RunStatistics::add(const Iteration& iteration, const host::IterationReport& report,
                        std::span<const std::span<const Decision>> logs) {
  iteration_seconds_.push_back(seconds(report.duration()));
  last_bubble_ = report.bubble_fraction();
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const host::RankReport& rank = report.ranks[i];
    StageStatistics& stage = stages_[i];
    stage.busy_s += seconds(rank.busy);
    stage.blocked_s += seconds(rank.blocked);
    stage.idle_s += seconds(report.duration() - rank.busy - rank.blocked);
    stage.dispatch_s += seconds(rank.dispatching);
    stage.tasks += rank.tasks;
    stage.peak_in_flight = std::max(stage.peak_in_flight, rank.peak_in_flight);
    stage.reordered += count_reordered(logs[i]);
  }
  keep_spans(iteration, report);
}

void RunStatistics::add_unpipelined(double duration_s) {
  iteration_seconds_.push_back(duration_s);
  stages_.front().busy_s += duration_s;
  stages_.front().peak_in_flight = 1;
}

void RunStatistics::keep_spans(const Iteration& iteration, const host::IterationReport& report) {
  std::vector<trace::TaskSpan> spans;
  for (std::uint32_t stage = 0; stage < report.ranks.size(); ++stage) {
    for (const Done& done : report.ranks[stage].ran) {
      spans.push_back(
          {done.task, iteration.index, stage, done.whole, seconds(done.started), seconds(done.ended)});
    }
  }
  kept_ += spans.size();
  spans_.push_back(std::move(spans));
  while (kept_ > kMostSpans && spans_.size() > 1) {
    kept_ -= spans_.front().size();
    spans_.pop_front();
  }
}

std::vector<std::uint32_t> RunStatistics::peaks_in_flight() const {
  std::vector<std::uint32_t> peaks;
  for (const StageStatistics& stage : stages_) peaks.push_back(stage.peak_in_flight);
  return peaks;
}

double RunStatistics::median_seconds() const { return median(iteration_seconds_); }

double RunStatistics::bubble_fraction() const {
  const double total = std::accumulate(iteration_seconds_.begin(), iteration_seconds_.end(), 0.0);
  double busy = 0;
  for (const StageStatistics& stage : stages_) busy += stage.busy_s;
  return total > 0 ? 1.0 - busy / (total * static_cast<double>(stages_.size())) : 0.0;
}

nlohmann::json RunStatistics::per_stage() const {
  nlohmann::json all = nlohmann::json::array();
  for (const StageStatistics& stage : stages_) {
    all.push_back({{"busy_s", stage.busy_s},
                   {"blocked_s", stage.blocked_s},
                   {"idle_s", stage.idle_s},
                   {"peak_in_flight", stage.peak_in_flight},
                   {"tasks", stage.tasks},
                   {"reordered", stage.reordered},
                   {"dispatch_ns_per_task", stage.dispatch_ns_per_task()}});
  }
  return all;
}

trace::MethodTimeline RunStatistics::timeline() const {
  trace::MethodTimeline timeline{name_, static_cast<std::uint32_t>(stages_.size()), {}};
  for (const auto& spans : spans_) timeline.spans.insert(timeline.spans.end(), spans.begin(), spans.end());
  return timeline;
}

std::string RunStatistics::table() const {
  const double total = std::accumulate(iteration_seconds_.begin(), iteration_seconds_.end(), 0.0);
  const auto share = [total](double part) { return total > 0 ? 100 * part / total : 0.0; };
  std::string text = fmt::format("{:>5}  {:>6}  {:>7}  {:>6}  {:>7}  {:>9}  {:>9}  {:>14}\n", "stage", "busy",
                                 "waiting", "idle", "tasks", "reordered", "in flight", "dispatch/task");
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const StageStatistics& stage = stages_[i];
    text += fmt::format("{:>5}  {:>5.1f}%  {:>6.1f}%  {:>5.1f}%  {:>7}  {:>9}  {:>9}  {:>11.1f} us\n", i,
                        share(stage.busy_s), share(stage.blocked_s), share(stage.idle_s), stage.tasks,
                        stage.reordered, stage.peak_in_flight, stage.dispatch_ns_per_task() / 1000);
  }
  return text;
}

std::uint64_t count_reordered(std::span<const Decision> decisions) {
  std::map<std::pair<Chunk, Pass>, Microbatch> highest;
  std::uint64_t reordered = 0;
  for (const Decision& decision : decisions) {
    const auto [at, first] =
        highest.try_emplace({decision.task.chunk, decision.task.pass}, decision.task.microbatch);
    if (decision.task.microbatch < at->second) ++reordered;
    at->second = std::max(at->second, decision.task.microbatch);
  }
  return reordered;
}

nlohmann::json to_json(const Decision& decision) {
  return {{"pass", std::string(1, letter(decision.task.pass))},
          {"chunk", decision.task.chunk},
          {"microbatch", decision.task.microbatch},
          {"iteration", decision.iteration},
          {"at_s", seconds(decision.at)},
          {"slot", decision.slot},
          {"whole", decision.whole},
          {"focus", decision.focus},
          {"runnable", decision.runnable},
          {"held_by_limit", decision.held_by_limit},
          {"held_by_order", decision.held_by_order}};
}

}  // namespace sluice::tools
