#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "arguments.hpp"
#include "bindings.hpp"
#include "duration_argument.hpp"
#include "method/method.hpp"
#include "method_argument.hpp"
#include "option/scenario_file.hpp"
#include "run/last_draw.hpp"
#include "run/simulation.hpp"
#include "simulated_run.hpp"
#include "sluice/error.hpp"
#include "sluice/host/delay_model.hpp"
#include "sluice/sim/scenario.hpp"

namespace sluice::python {
namespace {

constexpr std::int64_t kMostDraws = 1'000'000;
constexpr std::int64_t kMostThreads = 1024;
constexpr std::int64_t kDeepest = 64;

/// A pipeline, or a scenario as a file describes it.
using Model = std::variant<std::shared_ptr<Pipeline>, std::shared_ptr<sim::Scenario>>;

/// What `simulate` and `compare` are given; what is not given stays as the scenario has it.
struct Arguments {
  std::optional<DurationsArgument> durations;
  std::optional<std::string> delays;
  std::optional<TimeArgument> latency;
  std::optional<LimitArgument> limit;
  std::optional<std::string> rules;
  std::optional<std::string> accumulate;
  std::optional<std::int64_t> launch_ahead;
  std::optional<std::uint64_t> seed;
  std::int64_t draws = 1;
  std::int64_t threads = 0;
  bool record = false;
};

host::DelayModel parse_delays(const std::string& text) {
  try {
    return host::DelayModel::parse(text);
  } catch (const ConfigError& error) {
    const std::string what = error.what();
    throw ConfigError("delays", what.substr(error.field().size() + 2));
  }
}

sim::Scenario scenario_of(const Model& model, const Arguments& given) {
  const auto* const file = std::get_if<std::shared_ptr<sim::Scenario>>(&model);
  const bool from_file = file != nullptr;
  sim::Scenario scenario = from_file ? **file : sim::Scenario(std::get<0>(model)->with_split(false));
  if (from_file && given.durations) throw ConfigError("durations", "are given by the scenario");
  if (!from_file && !given.durations)
    throw ConfigError("durations", "give the times of a task, for example 'f=10ms,b=20ms,w=10ms'");
  if (given.durations) scenario.times = chunk_durations(*given.durations, scenario.pipeline);
  for (sim::Link& link : scenario.links) {
    if (given.delays) link.jitter = parse_delays(*given.delays);
    if (given.latency) link.latency = duration("latency", *given.latency);
  }
  if (given.limit) scenario.limits = limits(*given.limit, scenario.pipeline);
  if (given.limit) scenario.limit_given = true;
  if (given.rules || given.accumulate)
    scenario.rules = rules(given.rules.value_or("default"), given.accumulate);
  if (given.launch_ahead) scenario.depth = whole("launch_ahead", *given.launch_ahead, 1, kDeepest);
  if (given.seed) scenario.seed = *given.seed;
  scenario.validate();
  return scenario;
}

std::vector<tools::Method> methods_of(const std::vector<MethodArgument>& names,
                                      const sim::Scenario& scenario) {
  if (names.empty()) throw ConfigError("methods", "name at least one");
  std::set<std::string> seen;
  std::vector<tools::Method> methods;
  methods.reserve(names.size());
  for (const MethodArgument& each : names) {
    if (!seen.insert(name_of(each)).second)
      throw ConfigError("methods", "'" + name_of(each) + "' is named twice");
    methods.push_back(make_method(each, scenario.pipeline, tools::method_settings(scenario)));
  }
  return methods;
}

/// The timeline with times since its first task's start: an iteration may follow one that warmed up.
trace::MethodTimeline from_zero(trace::MethodTimeline timeline) {
  const auto earlier = [](const trace::TaskSpan& a, const trace::TaskSpan& b) {
    return a.start_s < b.start_s;
  };
  const auto first = std::min_element(timeline.spans.begin(), timeline.spans.end(), earlier);
  const double zero = first == timeline.spans.end() ? 0 : first->start_s;
  for (trace::TaskSpan& each : timeline.spans) {
    each.start_s -= zero;
    each.end_s -= zero;
  }
  return timeline;
}

std::vector<SimulatedRun> run(const sim::Scenario& scenario, const std::vector<tools::Method>& methods,
                              const Arguments& given) {
  tools::SimulationSettings settings;
  settings.seeds = whole("draws", given.draws, 1, kMostDraws);
  settings.threads = whole("threads", given.threads, 0, kMostThreads);
  tools::LastDraw last(scenario, methods, settings.seeds, {.timelines = true, .recordings = given.record});
  last.watch(settings);
  std::vector<std::vector<sim::StageReport>> reports(methods.size());
  settings.inspect = [&reports, &methods, keep = settings.inspect](std::size_t method,
                                                                   const sim::World& world) {
    keep(method, world);
    for (StageId stage = 0; stage < methods[method].pipeline().stages(); ++stage)
      reports[method].push_back(world.report(stage));
  };
  std::vector<tools::SimulatedMethod> figures = tools::simulate_methods(scenario, methods, settings);
  const auto recording = std::make_shared<const trace::Recording>(trace::Recording{"{}", last.recordings()});
  std::vector<SimulatedRun> runs;
  for (std::size_t i = 0; i < methods.size(); ++i) {
    runs.push_back({std::move(figures[i]), methods[i].pipeline(), methods[i].settings().limits,
                    std::move(reports[i]), from_zero(last.timelines()[i]), std::nullopt});
    if (given.record) runs.back().recorded.emplace(recording, i);
  }
  return runs;
}

std::vector<SimulatedRun> compare(const Model& model, const std::vector<MethodArgument>& methods,
                                  const Arguments& given) {
  const py::gil_scoped_release released;
  const sim::Scenario scenario = scenario_of(model, given);
  return run(scenario, methods_of(methods, scenario), given);
}

/// Adds a function whose last arguments are those of `Arguments`.
template <typename First, typename Result>
void add(py::module_& module, const char* name, const char* doc, const py::arg& first,
         Result (*call)(const Model&, const First&, const Arguments&)) {
  module.def(
      name,
      [call](const Model& model, const First& what, const std::optional<DurationsArgument>& durations,
             const std::optional<std::string>& delays, const std::optional<TimeArgument>& latency,
             const std::optional<LimitArgument>& limit, const std::optional<std::string>& rule_set,
             const std::optional<std::string>& accumulate, const std::optional<std::int64_t>& launch_ahead,
             const std::optional<std::uint64_t>& seed, std::int64_t draws, std::int64_t threads,
             bool record) {
        return call(model, what,
                    {durations, delays, latency, limit, rule_set, accumulate, launch_ahead, seed, draws,
                     threads, record});
      },
      py::arg("model").none(false), first, py::kw_only(), py::arg("durations") = py::none(),
      py::arg("delays") = py::none(), py::arg("latency") = py::none(), py::arg("limit") = py::none(),
      py::arg("rules") = py::none(), py::arg("accumulate") = py::none(), py::arg("launch_ahead") = py::none(),
      py::arg("seed") = py::none(), py::arg("draws") = 1, py::arg("threads") = 0, py::arg("record") = false,
      doc);
}

SimulatedRun simulate(const Model& model, const MethodArgument& method, const Arguments& given) {
  return compare(model, {method}, given).front();
}

constexpr const char* kSimulateDoc = R"(Runs the runtime's dispatchers in virtual time, under one method.

model: a Pipeline, whose backwards are split where the method needs it, or a Scenario.
method: a Hint (readiness-first), a Schedule (in order), or a name: of a hint, of a schedule, 'hint:SCHEDULE',
    'csv:FILE', 'hint:csv:FILE' or 'auto'.
durations: Durations or a text such as 'f=10ms,b=20ms,w=10ms,sigma=0.2', of a whole stage for one microbatch,
    or a list of Durations, one a chunk. Needed with a Pipeline.
delays: lateness of messages, 'j0' (default) to 'j3' or 'tail:0.3,10' (probability, mean in milliseconds).
latency: what every message takes, in seconds or as '20us'.
limit: most microbatches in flight on a stage (default 32): a number, one a stage, or 'total:64'.
rules: 'default' or 'paper'. accumulate: weight gradients in 'order' (default) or 'any'.
launch_ahead: tasks a device holds at once, the running one included.
seed, draws: draws 1 to `draws` of that seed. threads: 0 for one a core; results do not depend on it.
record: keep the last draw as a Trace.
Raises ConfigError naming the argument, StallError if nothing can happen any more.)";

constexpr const char* kCompareDoc = R"(The same for several methods on the same draws.

methods: what `simulate` takes for one; each once. The other arguments are those of `simulate`.)";

std::string read_text(const sim::Scenario& scenario) {
  return "<sluice.Scenario '" + scenario.name + "': " + std::to_string(scenario.pipeline.stages()) +
         " stages, " + std::to_string(scenario.pipeline.microbatches()) + " microbatches>";
}

void bind_scenario(py::module_& module) {
  py::class_<sim::Scenario, std::shared_ptr<sim::Scenario>>(
      module, "Scenario", "A model and what varies, as a TOML file describes it.")
      .def_static(
          "load",
          [](const std::filesystem::path& path) { return tools::read_scenario(path.string()).scenario; },
          py::arg("path"),
          "Reads a file (docs/simulate.md). Raises ConfigError naming the field, with its line.")
      .def_static(
          "parse",
          [](const std::string& text) {
            tools::ScenarioFile file = tools::parse_scenario(text, "text");
            if (file.trace) throw ConfigError("times.trace", "a text has no folder to look in: use load()");
            return std::move(file.scenario);
          },
          py::arg("text"), "Reads a text. Raises ConfigError.")
      .def_readonly("name", &sim::Scenario::name, "Its name.")
      .def_readonly("pipeline", &sim::Scenario::pipeline, "Not split.")
      .def_readonly("limits", &sim::Scenario::limits, "Most microbatches in flight, by stage.")
      .def("__repr__", &read_text);
}

}  // namespace

void bind_simulated_run(py::module_& module);

void bind_simulation(py::module_& module) {
  bind_scenario(module);
  bind_simulated_run(module);
  add<MethodArgument>(module, "simulate", kSimulateDoc, py::arg("method"), &simulate);
  add<std::vector<MethodArgument>>(module, "compare", kCompareDoc, py::arg("methods"), &compare);
}

}  // namespace sluice::python
