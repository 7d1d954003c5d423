#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "list_schedule.hpp"
#include "sluice/error.hpp"
#include "sluice/host/delay_model.hpp"
#include "sluice/host/duration_model.hpp"
#include "sluice/host/threaded_run.hpp"

/// How close the runtime on emulated devices comes to what a schedule costs on paper: fixed schedules, run
/// by the dispatchers in real time, against their closed forms and against list scheduling on the same draws.
namespace sluice::microbench {
namespace {

constexpr double kAllowed = 0.02;
constexpr std::uint64_t kSeed = 1;

struct Settings {
  std::uint32_t stages = 8;
  Microbatch microbatches = 64;
  std::uint64_t iterations = 2;
  std::string times = "f=10ms,b=20ms,w=10ms";
  std::string delays = "tail:0.3,10";
  std::string json;
};

struct Line {
  std::string schedule;
  std::string delays;
  std::uint64_t iteration = 0;
  Duration measured{};
  Duration model{};
  /// Zero where there is none.
  Duration closed_form{};
  double dispatch_ns_per_task = 0;
};

double ratio(Duration measured, Duration expected) {
  return static_cast<double>(measured.count()) / static_cast<double>(expected.count());
}

bool close(double value) { return std::abs(value - 1) <= kAllowed; }

double milliseconds(Duration duration) { return std::chrono::duration<double, std::milli>(duration).count(); }

Duration closed_form(std::string_view schedule, const Settings& settings, const host::DurationModel& times) {
  const Duration both = times.forward() + times.backward();
  if (schedule == "zb-h1") return settings.microbatches * both + (settings.stages - 1) * times.forward();
  return (settings.microbatches + settings.stages - 1) * both;
}

Duration modelled(const Pipeline& pipeline, const Schedule& schedule, const host::DurationModel& times,
                  const host::DelayModel& delays, std::uint64_t iteration) {
  const bool whole = !pipeline.split_backward();
  const auto task_time = [&](const Task& task) { return times.draw(kSeed, iteration, task, whole, 1); };
  const auto message_delay = [&](const MessageId& id) {
    return delays.draw(kSeed, {iteration, id.microbatch, id.edge, id.direction}, {});
  };
  Duration makespan{0};
  for (const auto& [task, interval] : test::list_schedule(pipeline, schedule, task_time, message_delay)) {
    makespan = std::max(makespan, interval.ended);
  }
  return makespan;
}

Line measure(host::ThreadedRun& run, std::uint64_t iteration) {
  const host::IterationReport report = run.run({iteration});
  Line line;
  line.iteration = iteration;
  line.measured = report.duration();
  double tasks = 0;
  for (const host::RankReport& rank : report.ranks) {
    line.dispatch_ns_per_task += static_cast<double>(rank.dispatching.count());
    tasks += rank.tasks;
  }
  line.dispatch_ns_per_task /= tasks;
  return line;
}

std::vector<Line> measure(const std::string& name, const std::string& delays, const Settings& settings) {
  const host::DurationModel times = host::DurationModel::parse(settings.times);
  const Pipeline pipeline = Pipeline::chain(settings.stages, settings.microbatches, name == "zb-h1");
  const Schedule schedule = Schedule::named(name, pipeline);
  host::Workload workload;
  workload.task_time = [&times](const Launch& launch) {
    return times.draw(kSeed, launch.iteration, launch.task, launch.whole, 1);
  };
  host::RunSettings options;
  options.seed = kSeed;
  options.delays = host::DelayModel::parse(delays);
  const std::vector<Policy> policies = Policy::fixed(schedule, pipeline, options.rules);
  const auto policy = [&](StageId stage) { return policies[stage]; };
  host::ThreadedRun run(pipeline, policy, workload, options);
  std::vector<Line> lines;
  for (std::uint64_t iteration = 0; iteration < settings.iterations; ++iteration) {
    Line line = measure(run, iteration);
    line.schedule = name;
    line.delays = delays;
    line.model = modelled(pipeline, schedule, times, options.delays, iteration);
    if (options.delays.none() && times.sigma() == 0) line.closed_form = closed_form(name, settings, times);
    lines.push_back(std::move(line));
  }
  return lines;
}

bool accurate(const Line& line) {
  return close(ratio(line.measured, line.model)) &&
         (line.closed_form == Duration{0} || close(ratio(line.measured, line.closed_form)));
}

void print(const Line& line) {
  const std::string closed =
      line.closed_form == Duration{0} ? "" : fmt::format("{:.4f}", ratio(line.measured, line.closed_form));
  fmt::print("{:<8} {:<14} {:>3} {:>13.2f} {:>13.2f} {:>15.4f} {:>21} {:>12.0f}{}\n", line.schedule,
             line.delays, line.iteration, milliseconds(line.measured), milliseconds(line.model),
             ratio(line.measured, line.model), closed, line.dispatch_ns_per_task,
             accurate(line) ? "" : "  off by more than 2 %");
}

nlohmann::json to_json(const Line& line) {
  nlohmann::json json{{"schedule", line.schedule},
                      {"delays", line.delays},
                      {"iteration", line.iteration},
                      {"measured_ms", milliseconds(line.measured)},
                      {"model_ms", milliseconds(line.model)},
                      {"measured_over_model", ratio(line.measured, line.model)},
                      {"dispatch_ns_per_task", line.dispatch_ns_per_task}};
  if (line.closed_form != Duration{0}) {
    json["closed_form_ms"] = milliseconds(line.closed_form);
    json["measured_over_closed_form"] = ratio(line.measured, line.closed_form);
  }
  return json;
}

int run(const Settings& settings) {
  fmt::print("{:<8} {:<14} {:>3} {:>13} {:>13} {:>15} {:>21} {:>12}\n", "schedule", "delays", "it",
             "measured ms", "model ms", "measured/model", "measured/closed form", "ns per task");
  bool all_accurate = true;
  nlohmann::json json = nlohmann::json::array();
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
    for (const std::string& delays : {std::string("j0"), settings.delays}) {
      for (const Line& line : measure(schedule, delays, settings)) {
        print(line);
        json.push_back(to_json(line));
        all_accurate = all_accurate && accurate(line);
      }
    }
  }
  if (!settings.json.empty()) {
    std::ofstream file(settings.json);
    file << json.dump(2) << '\n';
    if (!file.flush()) throw Error("json: cannot write " + settings.json);
  }
  return all_accurate ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace sluice::microbench

int main(int argc, char** argv) {
  sluice::microbench::Settings settings;
  CLI::App app("Compares emulated runs of fixed schedules with their closed forms and with list scheduling");
  app.add_option("--stages", settings.stages, "Number of stages")->capture_default_str();
  app.add_option("--microbatches", settings.microbatches, "Microbatches of an iteration")
      ->capture_default_str();
  app.add_option("--iterations", settings.iterations, "Iterations of each setting")->capture_default_str();
  app.add_option("--emulate", settings.times, "Times of the emulated device")->capture_default_str();
  app.add_option("--jitter", settings.delays, "Late messages of the second setting")->capture_default_str();
  app.add_option("--json", settings.json, "Also write the results to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    return sluice::microbench::run(settings);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return EXIT_FAILURE;
  }
}
