#include "paper/reproduce_questions.hpp"

#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>

#include "run/simulation.hpp"

namespace sluice::tools {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kSeeds = 8;
constexpr std::uint32_t kStages = 8;
constexpr std::uint32_t kMicrobatches = 64;
constexpr double kUniformForwardNs = 10e6;

const std::vector<std::string> kBasicMethods = {"1f1b", "bf", "bfw"};

/// A uniform chain: forward 10 ms, backward 20 ms, half of it the weight gradient.
sim::Scenario uniform(std::uint32_t stages, const std::string& jitter) {
  sim::Scenario scenario(Pipeline::chain(stages, kMicrobatches));
  for (auto& times : scenario.times)
    times = host::DurationModel({kUniformForwardNs, 2 * kUniformForwardNs, kUniformForwardNs});
  for (sim::Link& link : scenario.links) link.jitter = host::DelayModel::parse(jitter);
  return scenario;
}

void limit_to(sim::Scenario& scenario, std::uint32_t limit) {
  std::fill(scenario.limits.begin(), scenario.limits.end(), limit);
}

/// Backwards of no chunk can be split.
sim::Scenario unsplittable(const sim::Scenario& like) {
  std::vector<ChunkPlacement> chunks;
  for (StageId stage = 0; stage < like.pipeline.stages(); ++stage) chunks.push_back({stage, false});
  const auto edges = like.pipeline.edges();
  sim::Scenario scenario(Pipeline(chunks, {edges.begin(), edges.end()}, like.pipeline.microbatches(), false));
  scenario.times = like.times;
  scenario.links = like.links;
  scenario.limits = like.limits;
  return scenario;
}

class Question {
 public:
  /// @param simulations that it takes
  Question(std::string id, std::string title, std::vector<std::string> columns, std::size_t simulations,
           const ReproduceSettings& settings)
      : settings_(settings), simulations_(simulations) {
    table_.id = std::move(id);
    table_.title = std::move(title);
    table_.columns = std::move(columns);
    table_.json = {{"table", table_.id}, {"rows", nlohmann::json::array()}};
  }

  /// Median seconds of each method.
  [[nodiscard]] std::vector<double> simulate(const sim::Scenario& scenario,
                                             const std::vector<std::string>& names) {
    settings_.progress(done_++, simulations_, table_.id);
    std::vector<Method> methods;
    methods.reserve(names.size());
    for (const std::string& name : names)
      methods.emplace_back(name, scenario.pipeline, method_settings(scenario));
    SimulationSettings simulation;
    simulation.seeds = settings_.seeds.value_or(kSeeds);
    simulation.threads = settings_.threads;
    std::vector<double> seconds;
    for (const SimulatedMethod& method : simulate_methods(scenario, methods, simulation))
      seconds.push_back(method.median_makespan());
    return seconds;
  }

  /// @param base what the seconds are held against, method by method
  void add(std::vector<std::string> cells, nlohmann::json about, const std::vector<std::string>& methods,
           const std::vector<double>& seconds, const std::vector<double>& base) {
    for (std::size_t i = 0; i < methods.size(); ++i) {
      const double change = seconds[i] / base[i] - 1;
      cells.push_back(fmt::format("{:.2f} s ({:+.1f} %)", seconds[i], 100 * change));
      about["methods"][methods[i]] = {{"makespan_s", seconds[i]}, {"change", change}};
    }
    table_.rows.push_back(std::move(cells));
    table_.json["rows"].push_back(std::move(about));
  }

  [[nodiscard]] ReportTable table() && { return std::move(table_); }

 private:
  const ReproduceSettings& settings_;
  std::size_t simulations_;
  std::size_t done_ = 0;
  ReportTable table_;
};

constexpr std::array<const char*, 2> kDelays = {"j0", "tail:0.3,10"};

/// @param set gives the scenario its overhead or lateness
ReportTable sweep(const std::string& id, const std::string& title, const std::string& what,
                  const std::vector<Duration>& values, const ReproduceSettings& settings,
                  const std::function<void(sim::Scenario&, Duration)>& set) {
  Question question(id, title, {"delays", what, "1f1b", "bf", "bfw"}, kDelays.size() * values.size(),
                    settings);
  for (const char* delays : kDelays) {
    std::vector<double> base;
    for (const Duration value : values) {
      sim::Scenario scenario = uniform(kStages, delays);
      set(scenario, value);
      const std::vector<double> seconds = question.simulate(scenario, kBasicMethods);
      if (base.empty()) base = seconds;
      const double ms = std::chrono::duration<double, std::milli>(value).count();
      question.add({delays, fmt::format("{:g} ms", ms)}, {{"delays", delays}, {"value_ms", ms}},
                   kBasicMethods, seconds, base);
    }
  }
  return std::move(question).table();
}

ReportTable bad_hints(const ReproduceSettings& settings) {
  const std::vector<std::string> methods = {
      "bf", "bfw", "hint:1f1b", "hint:reversed", "hint:random:1", "hint:random:2"};
  const std::vector<std::uint32_t> limits = {8, 16, 32, 64};
  std::vector<std::string> columns = {"delays", "limit"};
  columns.insert(columns.end(), methods.begin(), methods.end());
  Question question("bad-hints", "What a bad hint costs (change against bf)", std::move(columns),
                    kDelays.size() * limits.size(), settings);
  for (const char* delays : kDelays) {
    for (const std::uint32_t limit : limits) {
      sim::Scenario scenario = uniform(kStages, delays);
      scenario.rules = Rules::paper();
      limit_to(scenario, limit);
      const std::vector<double> seconds = question.simulate(scenario, methods);
      question.add({delays, std::to_string(limit)}, {{"delays", delays}, {"limit", limit}}, methods, seconds,
                   std::vector<double>(methods.size(), seconds.front()));
    }
  }
  return std::move(question).table();
}

ReportTable accumulation(const ReproduceSettings& settings) {
  constexpr std::array<std::uint32_t, 2> depths = {8, 16};
  constexpr std::array<const char*, 2> tails = {"tail:0.3,10", "tail:0.3,30"};
  const std::vector<std::string> ways = {"any order, fused", "in order, fused",
                                         "in order, split out of turn"};
  Question question("accumulation", "What accumulating in order costs (bf, change against any order)",
                    {"stages", "delays", ways[0], ways[1], ways[2]},
                    depths.size() * tails.size() * ways.size(), settings);
  for (const std::uint32_t stages : depths) {
    for (const char* delays : tails) {
      sim::Scenario split = uniform(stages, delays);
      sim::Scenario any = split;
      any.rules.ordered_accumulation = false;
      std::vector<double> seconds;
      for (const sim::Scenario& scenario : {any, unsplittable(split), split})
        seconds.push_back(question.simulate(scenario, {"bf"}).front());
      question.add({std::to_string(stages), delays}, {{"stages", stages}, {"delays", delays}}, ways, seconds,
                   std::vector<double>(ways.size(), seconds.front()));
    }
  }
  return std::move(question).table();
}

}  // namespace

std::vector<ReportTable> reproduce_questions(const ReproduceSettings& settings) {
  const std::vector<Duration> overheads = {0us, 50us, 100us, 200us, 500us, 1ms};
  const std::vector<Duration> lateness = {0us, 100us, 500us, 1ms, 2ms, 5ms, 10ms};
  std::vector<ReportTable> tables;
  tables.push_back(sweep("overhead-per-task",
                         "What overhead per task costs (tasks of 10 and 20 ms; change against none)",
                         "per task", overheads, settings,
                         [](sim::Scenario& scenario, Duration value) { scenario.overhead.task = value; }));
  tables.push_back(sweep("late-readiness",
                         "What it costs to notice messages late (forward 10 ms; change against at once)",
                         "noticed after", lateness, settings,
                         [](sim::Scenario& scenario, Duration value) { scenario.overhead.hop = value; }));
  tables.push_back(bad_hints(settings));
  tables.push_back(accumulation(settings));
  return tables;
}

}  // namespace sluice::tools
